/**
 * Target `http2`: valid and broken frames to the gRPC port, in any order, cut anywhere. A ping at the end shows that
 * the daemon has processed all of them.
 */
import {
  ACK,
  END_HEADERS,
  END_STREAM,
  FRAME,
  frame,
  headerBlock,
  messageFrames,
  opening,
  PREFACE,
  reset,
  u32,
} from '../../grpc/frames.ts';
import type { Random } from '../random.ts';
import { cut, damaged, exchange, once, randomBytes } from './bytes.ts';
import type { Door } from './doors.ts';
import { METHODS, requestBytes } from './protobuf-messages.ts';

const CASES = 200_000;
const SENTINEL = Buffer.from('thisisit');
const PATIENCE_MS = 60;
const MOST_FRAMES = 10;
const PADDED = 0x8;
const WITH_PRIORITY = 0x20;

const PATHS: readonly string[] = [
  ...METHODS.map(({ path }) => path),
  ...[
    '/',
    '',
    '*',
    '/svc.v1.Inference',
    '/svc.v1.Inference/',
    '/no.Such/Method',
    '//',
    '/\u00ff',
    `/${'x'.repeat(300)}`,
  ],
];
const CONTENT_TYPES: readonly string[] = [
  ...['application/grpc', 'application/grpc', 'application/grpc', 'application/grpc+proto', 'application/grpc-web'],
  ...['text/plain', 'application/json', ''],
];
const EXTRAS: readonly (readonly [string, string])[] = [
  ['grpc-timeout', '1S'],
  ['grpc-timeout', '1n'],
  ['grpc-timeout', 'soon'],
  ['grpc-timeout', '99999999H'],
  ['grpc-encoding', 'gzip'],
  ['grpc-encoding', 'none'],
  ['grpc-accept-encoding', 'identity'],
  ['content-type', 'application/grpc'],
  ['content-length', '5'],
  ['content-length', '-1'],
  ['authorization', 'Bearer x'],
  ['x-api-key', '\u00ff'],
  ['x-request-id', 'mine'],
  ['some-bin', 'AAAA,BBBB,=,\u00ff'],
  ['Upper', 'case'],
  ['connection', 'close'],
  ['transfer-encoding', 'chunked'],
  [':path', '/'],
  [':unknown', 'x'],
  ['host', 'evil.example'],
  ['expect', '100-continue'],
  ['', ''],
  ['a b', 'c\r\nd: e'],
];

export const http2: Door = {
  name: 'http2',
  cases: CASES,
  isShipped: true,
  open: (daemon) =>
    Promise.resolve({
      play: async (random) => {
        const begin = once(random, 20) ? damaged(random, opening()) : once(random, 20) ? PREFACE : opening();
        const frames = frameSequence(random);
        const bytes = once(random, 4) ? damaged(random, frames) : frames;
        const whole = Buffer.concat([begin, bytes, frame(FRAME.ping, 0, 0, SENTINEL)]);
        await exchange({
          port: daemon.grpcPort,
          pieces: cut(random, once(random, 8) ? whole.subarray(0, random.below(whole.length)) : whole),
          ending: random.of(['end', 'destroy', 'reset']),
          isAnswered: (answer) => answer.includes(SENTINEL),
          patienceMs: PATIENCE_MS,
        });
        return null;
      },
      close: () => undefined,
    }),
};

function frameSequence(random: Random): Buffer {
  const frames: Buffer[] = [];
  let stream = 1;
  for (let left = 1 + random.below(MOST_FRAMES); left > 0; left -= 1) {
    const id = once(random, 8) ? random.of([0, 2, 1, stream + 100, 2 ** 31 - 1]) : stream;
    frames.push(someFrame(random, id));
    if (once(random, 2)) stream += 2;
  }
  return Buffer.concat(frames);
}

function someFrame(random: Random, id: number): Buffer {
  switch (random.below(14)) {
    case 0:
    case 1:
    case 2:
      return headers(random, id);
    case 3:
      return Buffer.concat([headers(random, id), reset(id)]);
    case 4:
    case 5:
      return Buffer.concat([headers(random, id), data(random, id)]);
    case 6:
      return data(random, id);
    case 7:
      return frame(FRAME.reset, 0, id, once(random, 6) ? randomBytes(random, 8) : u32(random.below(16)));
    case 8:
      return settings(random);
    case 9:
      return frame(
        FRAME.ping,
        once(random, 3) ? ACK : 0,
        0,
        once(random, 6) ? randomBytes(random, 12) : Buffer.alloc(8),
      );
    case 10:
      return frame(FRAME.window, 0, once(random, 2) ? 0 : id, u32(random.of([0, 1, 65_535, 2 ** 31 - 1])));
    case 11:
      return frame(FRAME.goaway, 0, 0, Buffer.concat([u32(id), u32(random.below(16)), randomBytes(random, 8)]));
    case 12:
      return frame(
        FRAME.priority,
        0,
        id,
        once(random, 4) ? randomBytes(random, 8) : Buffer.from([0, 0, 0, random.below(4), 15]),
      );
    default:
      return frame(
        random.of([FRAME.push, FRAME.continuation, 10, 12, 255]),
        random.below(256),
        id,
        randomBytes(random, 40),
      );
  }
}

function headers(random: Random, id: number): Buffer {
  let block = headerBlock(fields(random));
  if (once(random, 6)) block = damaged(random, block);
  // Indexed fields and table sizes, many of them invalid.
  if (once(random, 6))
    block = Buffer.concat([block, Buffer.from([random.of([0x80, 0x82, 0xbe, 0xff, 0x3f, 0x20, 0x40])])]);
  let flags = once(random, 3) ? END_STREAM : 0;
  if (once(random, 12)) {
    flags |= WITH_PRIORITY;
    block = Buffer.concat([Buffer.from([0, 0, 0, 0, 15]), block]);
  }
  if (once(random, 12)) {
    flags |= PADDED;
    block = Buffer.concat([Buffer.from([random.of([0, 2, 255])]), block, Buffer.alloc(2)]);
  }
  if (once(random, 5)) {
    const at = random.below(block.length + 1);
    const next = once(random, 6) ? id + 2 : id;
    return Buffer.concat([
      frame(FRAME.headers, flags, id, block.subarray(0, at)),
      ...(once(random, 10) ? [frame(FRAME.ping, 0, 0, Buffer.alloc(8))] : []),
      frame(FRAME.continuation, once(random, 10) ? 0 : END_HEADERS, next, block.subarray(at)),
    ]);
  }
  return frame(FRAME.headers, flags | (once(random, 60) ? 0 : END_HEADERS), id, block);
}

function fields(random: Random): (readonly [string, string])[] {
  const all: (readonly [string, string])[] = [
    [':method', once(random, 10) ? random.of(['GET', 'CONNECT', 'PRI', '']) : 'POST'],
    [':scheme', once(random, 20) ? 'x' : 'http'],
    [':path', random.of(PATHS)],
    [':authority', once(random, 10) ? random.of(['evil.example', '', 'a b', '[::1']) : 'localhost'],
    ['content-type', random.of(CONTENT_TYPES)],
    ['te', 'trailers'],
  ];
  const kept = all.filter(() => !once(random, 12));
  for (let extra = random.below(3); extra > 0; extra -= 1) kept.push(random.of(EXTRAS));
  if (once(random, 12)) kept.reverse();
  return kept;
}

function data(random: Random, id: number): Buffer {
  const endStream = once(random, 2);
  const message = once(random, 3) ? randomBytes(random, 60) : requestBytes(random);
  const frames = messageFrames(id, once(random, 3) ? damaged(random, message) : message, endStream);
  switch (random.below(8)) {
    case 0:
      // A random prefix: the compressed flag may be set, and the length is wrong.
      return frame(FRAME.data, endStream ? END_STREAM : 0, id, Buffer.concat([randomBytes(random, 5), message]));
    case 1:
      return frame(FRAME.data, PADDED, id, Buffer.concat([Buffer.from([random.below(256)]), randomBytes(random, 30)]));
    case 2:
      return Buffer.concat([frames, frames]);
    default:
      return frames;
  }
}

function settings(random: Random): Buffer {
  if (once(random, 6)) return frame(FRAME.settings, ACK, 0, once(random, 3) ? randomBytes(random, 6) : Buffer.alloc(0));
  const entries = Array.from({ length: random.below(5) }, () => {
    const entry = Buffer.alloc(6);
    entry.writeUInt16BE(random.below(10), 0);
    entry.writeUInt32BE(random.of([0, 1, 100, 16_384, 65_535, 2 ** 24, 2 ** 31 - 1, 2 ** 32 - 1]), 2);
    return entry;
  });
  return frame(FRAME.settings, 0, once(random, 20) ? 1 : 0, Buffer.concat(entries));
}
