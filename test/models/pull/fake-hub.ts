/**
 * A fake Hugging Face hub and its file store, on two ports of this machine. Like the real ones they serve the
 * revision, the tree (paged), HEAD of `resolve` with a redirect to the store, X-Linked-Etag and X-Linked-Size, error
 * codes, and ranges with If-Range. Tests inject faults per request.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { given } from '../../../src/protocol/given.ts';

export const COMMIT = '0123456789abcdef0123456789abcdef01234567';

export interface HubFile {
  readonly content: Buffer;
  /** False values in the tree, if set. */
  readonly saidDigest?: string;
  readonly saidSize?: number;
  /** Digest that `resolve` reports. */
  readonly linkedDigest?: string;
  readonly linkedSize?: number;
}

/** A request for file bytes. */
export interface BytesRequest {
  readonly path: string;
  /** Number of the request, from 1, over all requests for bytes. */
  readonly number: number;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly content: Buffer;
  /** Requested range; the whole file without a Range header. */
  readonly from: number;
  readonly to: number;
}

export interface Seen {
  readonly server: 'hub' | 'store';
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
}

export class FakeHub {
  /** Files by repository and path. */
  readonly repositories: Map<string, Map<string, HubFile>> = new Map<string, Map<string, HubFile>>();
  readonly seen: Seen[] = [];
  /** Hook; if it returns true, it has answered instead of the hub. */
  onHub: (req: IncomingMessage, res: ServerResponse) => boolean | Promise<boolean> = () => false;
  /** Hook; if it returns true, it has answered instead of the store. */
  onBytes: (request: BytesRequest) => boolean | Promise<boolean> = () => false;
  etag: (content: Buffer) => string = (content) => `"${sha256(content).slice(0, 32)}"`;
  /** Number of bytes that the store sent. */
  sent = 0;
  /** Number of bytes that the client has read, as it last reported; set by the test. */
  fetched = 0;
  /** Entries per page of the tree. */
  pageLength = 1000;
  /** Token that every request to the hub must have; null if none. */
  token: string | null = null;
  tags: readonly string[] = ['gguf', 'license:apache-2.0'];
  #hub!: Server;
  #store!: Server;
  #requests = 0;

  async start(): Promise<this> {
    this.#hub = await listen((req, res) => this.#answerHub(req, res));
    this.#store = await listen((req, res) => this.#answerBytes(req, res));
    return this;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${portOf(this.#hub)}`;
  }

  get storeOrigin(): string {
    return `http://127.0.0.1:${portOf(this.#store)}`;
  }

  add(repo: string, path: string, file: HubFile | Buffer): void {
    const files = this.repositories.get(repo) ?? new Map<string, HubFile>();
    files.set(path, Buffer.isBuffer(file) ? { content: file } : file);
    this.repositories.set(repo, files);
  }

  /** Resets everything that tests change, except the files. */
  reset(): void {
    this.onHub = () => false;
    this.onBytes = () => false;
    this.etag = (content) => `"${sha256(content).slice(0, 32)}"`;
    this.pageLength = 1000;
    this.token = null;
    this.forget();
  }

  forget(): void {
    this.seen.length = 0;
    this.sent = 0;
    this.fetched = 0;
    this.#requests = 0;
  }

  async stop(): Promise<void> {
    for (const server of [this.#hub, this.#store]) {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    }
  }

  /** Sends bytes as a store does; tests may send fewer or different ones. */
  async send({ req, res, content, from, to }: BytesRequest, body = content.subarray(from, to)): Promise<void> {
    const isPart = req.headers.range !== undefined;
    res.writeHead(isPart ? 206 : 200, {
      etag: this.etag(content),
      'accept-ranges': 'bytes',
      'content-length': String(body.length),
      ...(isPart ? { 'content-range': `bytes ${from}-${to - 1}/${content.length}` } : {}),
    });
    await this.write(res, body);
    res.end();
  }

  async write(res: ServerResponse, body: Buffer): Promise<void> {
    const PIECE = 64 * 1024;
    for (let at = 0; at < body.length && !res.destroyed; at += PIECE) {
      const piece = body.subarray(at, at + PIECE);
      this.sent += piece.length;
      if (!res.write(piece)) await writable(res);
    }
  }

  async #answerHub(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', this.endpoint);
    this.seen.push({ server: 'hub', method: req.method ?? '', url: url.pathname + url.search, headers: req.headers });
    if (await this.onHub(req, res)) return;
    if (this.token !== null && req.headers.authorization !== `Bearer ${this.token}`) {
      refuse(res, 401, 'GatedRepo');
      return;
    }
    const [, repo = '', revision = ''] =
      /^\/api\/models\/([^/]+\/[^/]+)\/(?:revision|tree)\/([^/]+)$/.exec(url.pathname) ?? [];
    if (url.pathname === '/api/models') {
      this.#search(url, res);
      return;
    }
    if (repo !== '') {
      const files = this.repositories.get(repo);
      if (files === undefined) {
        refuse(res, 404, 'RepoNotFound');
        return;
      }
      if (!['main', COMMIT].includes(revision)) {
        refuse(res, 404, 'RevisionNotFound');
        return;
      }
      if (url.pathname.includes('/revision/')) {
        json(res, { id: repo, sha: COMMIT, tags: this.tags, gated: false });
        return;
      }
      this.#tree(url, files, res);
      return;
    }
    const [, where = '', at = '', path = ''] = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(url.pathname) ?? [];
    const file = this.repositories.get(where)?.get(decodeURIComponent(path));
    if (file === undefined || at !== COMMIT) {
      refuse(res, 404, 'EntryNotFound');
      return;
    }
    res.writeHead(302, {
      location: `${this.storeOrigin}/${where}/${path}?signature=secret`,
      etag: `"${sha256(file.content)}"`,
      'x-linked-etag': `"${file.linkedDigest ?? file.saidDigest ?? sha256(file.content)}"`,
      'x-linked-size': String(file.linkedSize ?? file.saidSize ?? file.content.length),
      'x-repo-commit': COMMIT,
    });
    res.end();
  }

  #tree(url: URL, files: Map<string, HubFile>, res: ServerResponse): void {
    const from = Number(url.searchParams.get('cursor') ?? 0);
    const entries = Array.from(files, ([path, file]) => {
      const size = file.saidSize ?? file.content.length;
      const oid = file.saidDigest ?? sha256(file.content);
      return { type: 'file', oid: oid.slice(0, 40), size, path, lfs: { oid, size, pointerSize: 134 } };
    });
    const next = from + this.pageLength;
    url.searchParams.set('cursor', String(next));
    json(res, entries.slice(from, next), next < entries.length ? { link: `<${url.href}>; rel="next"` } : {});
  }

  #search(url: URL, res: ServerResponse): void {
    const words = (url.searchParams.get('search') ?? '').toLowerCase().split(' ');
    const found = [...this.repositories.keys()].filter((repo) =>
      words.every((word) => repo.toLowerCase().includes(word)),
    );
    json(
      res,
      found.map((id) => ({ id, downloads: 10, likes: 1, lastModified: '2026-01-01T00:00:00.000Z', tags: this.tags })),
    );
  }

  async #answerBytes(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', this.storeOrigin);
    this.seen.push({ server: 'store', method: req.method ?? '', url: url.pathname + url.search, headers: req.headers });
    const [, repo = '', path = ''] = /^\/([^/]+\/[^/]+)\/(.+)$/.exec(url.pathname) ?? [];
    const content = this.repositories.get(repo)?.get(decodeURIComponent(path))?.content;
    if (content === undefined) {
      refuse(res, 404);
      return;
    }
    const isSame = req.headers['if-range'] === undefined || req.headers['if-range'] === this.etag(content);
    const [, first, last] = isSame ? (/^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? '') ?? []) : [];
    if (!isSame) delete req.headers.range;
    const from = Number(first ?? 0);
    const to = last === undefined ? content.length : Math.min(content.length, Number(last) + 1);
    this.#requests += 1;
    const request = { path, number: this.#requests, req, res, content, from, to };
    if (await this.onBytes(request)) return;
    if (from >= content.length) {
      res.writeHead(416, { 'content-range': `bytes */${content.length}` }).end();
      return;
    }
    await this.send(request);
  }
}

/** Resolves when more may be written, or the connection is closed. */
async function writable(res: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });
}

const digests = new WeakMap<Buffer, string>();

/** SHA-256 of a file, cached. REQUIRES: the content does not change. */
export function sha256(content: Buffer): string {
  const digest = digests.get(content) ?? createHash('sha256').update(content).digest('hex');
  digests.set(content, digest);
  return digest;
}

export function refuse(res: ServerResponse, status: number, code?: string): void {
  res.writeHead(status, given({ 'x-error-code': code })).end();
}

export function json(res: ServerResponse, value: unknown, headers: Record<string, string> = {}): void {
  res.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
}

async function listen(answer: (req: IncomingMessage, res: ServerResponse) => Promise<void>): Promise<Server> {
  const server = createServer((req, res) => {
    answer(req, res).catch(() => res.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
