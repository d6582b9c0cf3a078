/** Faults of hubs and stores, each with the required outcome. docs/pull-faults.md is generated from them. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorCode } from '../../../src/protocol/errors.ts';
import { json, refuse, sha256, type FakeHub } from './fake-hub.ts';
import {
  allAlike,
  breakOff,
  cutOff,
  hasWeakEtag,
  once,
  redirect,
  sendHead,
  sendsTheStart,
  sendsTheWhole,
  status,
} from './faulty-answers.ts';
import { KIB, MIB, modelOf } from './pull-support.ts';

export interface Fault {
  /** What the server does. */
  readonly name: string;
  /** Expected error; undefined if the pull succeeds. */
  readonly error?: ErrorCode;
  /** Matches a part of the message. */
  readonly says?: RegExp;
  /** Maximum number of bytes fetched more than once or in vain. */
  readonly twice: number;
  /** If set, prepares the hub for a first pull, which is cut off; `begin` then prepares the second. */
  readonly first?: (hub: FakeHub) => void;
  readonly begin: (hub: FakeHub, content: Buffer) => void;
}

export const REPO = 'acme/m';
export const FILE = 'm-Q4_0.gguf';
export const CONTENT: Buffer = modelOf(2 * MIB);
/** Part size of `SMALL`. */
const PART = 256 * KIB;
const IN_FLIGHT = 3 * PART;

export const FAULTS: readonly Fault[] = [
  { name: 'closes connections in the middle of parts', twice: 0, begin: (hub) => (hub.onBytes = breakOff(hub, false)) },
  {
    name: 'resets connections in the middle of parts',
    twice: IN_FLIGHT,
    begin: (hub) => (hub.onBytes = breakOff(hub, true)),
  },
  {
    name: 'drops all connections together, twice in a row',
    twice: 0,
    begin: (hub) => (hub.onBytes = allAlike(2, (res) => res.destroy())),
  },
  {
    name: 'stops sending in the middle of a part, and keeps the connection',
    twice: 64 * KIB,
    begin: (hub) =>
      (hub.onBytes = once(async (request) => {
        const { res, from, content } = request;
        sendHead(request);
        res.write(content.subarray(from, from + 1000));
        return true;
      })),
  },
  {
    name: 'sends one byte every 50 ms',
    twice: 64 * KIB,
    begin: (hub) =>
      (hub.onBytes = once(async (request) => {
        const { res, from, to, content } = request;
        sendHead(request);
        for (let at = from; at < to && !res.destroyed; at += 1) {
          res.write(content.subarray(at, at + 1));
          await sleep(50);
        }
        return true;
      })),
  },
  { name: 'accepts a request for bytes and never answers', twice: 0, begin: (hub) => (hub.onBytes = once(() => true)) },
  {
    name: '429 with Retry-After: 1',
    twice: 0,
    begin: (hub) => (hub.onBytes = once(status(429, { 'retry-after': '1' }))),
  },
  {
    name: '429 with Retry-After: 3600',
    error: 'DOWNLOAD_FAILED',
    says: /asks to wait 60 minutes/,
    twice: 0,
    begin: (hub) => (hub.onBytes = status(429, { 'retry-after': '3600' })),
  },
  {
    name: '503 twice',
    twice: 0,
    begin: (hub) => (hub.onBytes = ({ number, res }) => number <= 2 && status(503)({ res } as never) === true),
  },
  {
    name: '500 always',
    error: 'DOWNLOAD_FAILED',
    says: /status 500 .*repeated failures/,
    twice: 0,
    begin: (hub) => (hub.onBytes = status(500)),
  },
  { name: 'refuses a link that has expired (403)', twice: 0, begin: (hub) => (hub.onBytes = once(status(403))) },
  {
    name: 'refuses a link that has expired (403) to all connections together',
    twice: 0,
    begin: (hub) => (hub.onBytes = allAlike(1, (res) => res.writeHead(403).end())),
  },
  {
    name: 'refuses every link (403)',
    error: 'DOWNLOAD_FAILED',
    says: /status 403/,
    twice: 0,
    begin: (hub) => (hub.onBytes = status(403)),
  },
  {
    name: 'does not support ranges, and sends the whole file',
    twice: 0,
    begin: sendsTheWhole,
  },
  {
    name: 'does not support ranges, and half of the file was already downloaded',
    first: cutOff,
    twice: 4 * PART,
    begin: sendsTheWhole,
  },
  {
    name: 'does not support ranges, and always stops sending at the same byte',
    error: 'DOWNLOAD_FAILED',
    says: /closed the connection early; gave up/,
    twice: 3 * MIB,
    begin: (hub) => (hub.onBytes = sendsTheStart(hub, MIB)),
  },
  {
    name: 'sends the start of the file instead of a part, once',
    twice: 0,
    begin: (hub) => {
      const answer = sendsTheStart(hub, 128 * KIB);
      hasWeakEtag(hub);
      hub.onBytes = (request) => request.number === 5 && answer(request);
    },
  },
  {
    name: 'sends the start of the file instead of the first part, once, and half of the file was already downloaded',
    first: (hub) => {
      hasWeakEtag(hub);
      cutOff(hub);
    },
    twice: 128 * KIB,
    begin: (hub) => {
      hasWeakEtag(hub);
      hub.onBytes = once(sendsTheStart(hub, 128 * KIB));
    },
  },
  {
    name: 'has another ETag than before, for the same bytes',
    first: cutOff,
    twice: 0,
    begin: (hub) => (hub.etag = () => '"another"'),
  },
  {
    name: 'has another file than before, of the same size and with its own digest',
    first: cutOff,
    twice: 4 * PART,
    begin: (hub) => hub.add(REPO, FILE, modelOf(2 * MIB, 99)),
  },
  {
    name: 'has another file than before under the old digest',
    error: 'DOWNLOAD_FAILED',
    says: /SHA-256 mismatch/,
    first: cutOff,
    twice: 2 * MIB + 4 * PART + KIB,
    begin: (hub, content) => hub.add(REPO, FILE, { content: modelOf(2 * MIB, 99), saidDigest: sha256(content) }),
  },
  {
    name: 'changes the last byte',
    error: 'DOWNLOAD_FAILED',
    says: /SHA-256 mismatch/,
    twice: 0,
    begin: (hub) =>
      (hub.onBytes = async (request) => {
        if (request.to !== request.content.length) return false;
        const body = Buffer.from(request.content.subarray(request.from, request.to));
        body.writeUInt8(body.readUInt8(body.length - 1) ^ 1, body.length - 1);
        await hub.send(request, body);
        return true;
      }),
  },
  {
    name: 'reports a digest that the file does not have',
    error: 'DOWNLOAD_FAILED',
    says: /SHA-256 mismatch/,
    twice: 0,
    begin: (hub, content) => hub.add(REPO, FILE, { content, saidDigest: 'ab'.repeat(32) }),
  },
  {
    name: 'reports one digest in the list and another in the link',
    error: 'DOWNLOAD_FAILED',
    says: /two different values for the SHA-256/,
    twice: 0,
    begin: (hub, content) => hub.add(REPO, FILE, { content, linkedDigest: 'ab'.repeat(32) }),
  },
  {
    name: 'reports a size that is too large',
    error: 'DOWNLOAD_FAILED',
    says: /should have 2098176 bytes/,
    twice: 0,
    begin: (hub, content) => hub.add(REPO, FILE, { content, saidSize: 2_098_176 }),
  },
  {
    name: 'reports a size that is too small',
    error: 'DOWNLOAD_FAILED',
    says: /should have 1000 bytes/,
    twice: 0,
    begin: (hub, content) => hub.add(REPO, FILE, { content, saidSize: 1000 }),
  },
  {
    name: '416 for every part',
    error: 'DOWNLOAD_FAILED',
    says: /bytes, but \S+ has fewer/,
    twice: 0,
    begin: (hub) => (hub.onBytes = status(416)),
  },
  {
    name: 'sends more than was requested, without end',
    error: 'DOWNLOAD_FAILED',
    says: /sent more bytes than requested; gave up/,
    twice: 5 * PART,
    begin: (hub) =>
      (hub.onBytes = async ({ res, from, to, content }) => {
        res.writeHead(206, { 'content-range': `bytes ${from}-${to - 1}/${content.length}` });
        // Each attempt sends the file from its start, so the pull makes no progress.
        while (!res.destroyed) await hub.write(res, content);
        return true;
      }),
  },
  {
    name: 'sends another part than was requested',
    error: 'DOWNLOAD_FAILED',
    says: /another byte range/,
    twice: 5 * PART,
    begin: (hub) =>
      (hub.onBytes = async (request) => {
        await hub.send({ ...request, from: 0, to: request.to - request.from + 1 });
        return true;
      }),
  },
  {
    name: 'compresses its answer',
    error: 'DOWNLOAD_FAILED',
    says: /compressed/,
    twice: 0,
    begin: (hub) => (hub.onBytes = status(200, { 'content-encoding': 'gzip' })),
  },
  {
    name: 'redirects endlessly',
    error: 'DOWNLOAD_FAILED',
    says: /redirects too many times/,
    twice: 0,
    begin: (hub) =>
      (hub.onBytes = ({ req, res }) => {
        res.writeHead(302, { location: req.url ?? '/' }).end();
        return true;
      }),
  },
  {
    name: "redirects to a cloud's metadata service, which gives out credentials",
    error: 'DOWNLOAD_FAILED',
    says: /a reserved address/,
    twice: 0,
    begin: redirect(() => 'http://169.254.169.254/latest/meta-data'),
  },
  {
    name: 'redirects to a URL that is not http',
    error: 'DOWNLOAD_FAILED',
    says: /an invalid URL/,
    twice: 0,
    begin: redirect(() => 'file:///etc/passwd'),
  },
  {
    name: 'redirects to plain http on the internet',
    error: 'DOWNLOAD_FAILED',
    says: /plain http/,
    twice: 0,
    begin: redirect(() => 'http://8.8.8.8/m.gguf'),
  },
  {
    name: 'sends an endless list of files',
    error: 'DOWNLOAD_FAILED',
    says: /larger than/,
    twice: 0,
    begin: (hub) =>
      (hub.onHub = async (req, res) => {
        if (req.url?.includes('/tree/') !== true) return false;
        res.writeHead(200, { 'content-type': 'application/json' });
        const piece = Buffer.alloc(MIB, '[');
        while (!res.destroyed) await hub.write(res, piece);
        return true;
      }),
  },
  {
    name: 'lists file names that lead out of the folder',
    error: 'MODEL_NOT_FOUND',
    says: /no GGUF files/,
    twice: 0,
    begin: (hub, content) => {
      hub.repositories.get(REPO)?.clear();
      const names = [
        '../../x.gguf',
        '/etc/x.gguf',
        'a\\..\\x.gguf',
        'C:x.gguf',
        'a//x.gguf',
        'x\u0000.gguf',
        'a/./x.gguf',
      ];
      for (const name of names) hub.add(REPO, name, content);
    },
  },
  {
    name: 'answers with a page for people instead of JSON',
    error: 'DOWNLOAD_FAILED',
    says: /not JSON/,
    twice: 0,
    begin: (hub) =>
      (hub.onHub = (_, res) => {
        res.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
        return true;
      }),
  },
  {
    name: 'answers with JSON of another kind',
    error: 'DOWNLOAD_FAILED',
    says: /not answer like a Hugging Face hub/,
    twice: 0,
    begin: (hub) =>
      (hub.onHub = (_, res) => {
        json(res, { hello: 'world' });
        return true;
      }),
  },
  {
    name: 'asks for a token (gated)',
    error: 'PROVIDER_AUTH',
    says: /terms must be accepted/,
    twice: 0,
    begin: (hub) => (hub.token = 'another'),
  },
  {
    name: 'does not know the repository',
    error: 'MODEL_NOT_FOUND',
    says: /there is no repository acme\/m/,
    twice: 0,
    begin: (hub) =>
      (hub.onHub = (_, res) => {
        refuse(res, 404, 'RepoNotFound');
        return true;
      }),
  },
  {
    name: 'has a file with the right digest that is not a model',
    error: 'MODEL_INVALID',
    says: /cannot be used/,
    twice: 0,
    begin: (hub) => hub.add(REPO, FILE, Buffer.alloc(MIB, 7)),
  },
];
