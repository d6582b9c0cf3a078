/** Builds HTTP/2 frames byte by byte, for clients that send what no library would. */

export const PREFACE: Buffer = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const;

export const END_STREAM = 0x1;
export const END_HEADERS = 0x4;
export const ACK = 0x1;
export const CANCEL = 8;

export function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Header fields as HPACK literals without indexing. REQUIRES: no name or value is longer than 16 KiB. */
export function headerBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.from([0]), ...hpackString(name), ...hpackString(value)]),
  );
}

/** Header fields of a call; `changes` replaces fields, removes those that are null, and adds others. */
export function callFields(path: string, changes: Readonly<Record<string, string | null>> = {}): [string, string][] {
  const fields: Record<string, string | null> = {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...changes,
  };
  return Object.entries(fields).filter((field): field is [string, string] => field[1] !== null);
}

/** HEADERS frame of a call; the client's side stays open. */
export function callHeaders(
  stream: number,
  path: string,
  changes: Readonly<Record<string, string | null>> = {},
): Buffer {
  return frame(FRAME.headers, END_HEADERS, stream, headerBlock(callFields(path, changes)));
}

/** A gRPC message in DATA frames. */
export function messageFrames(stream: number, message: Uint8Array, endStream: boolean): Buffer {
  const MOST = 16_384;
  const bytes = Buffer.concat([Buffer.from([0]), u32(message.length), message]);
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += MOST) {
    const isLast = at + MOST >= bytes.length;
    frames.push(frame(FRAME.data, isLast && endStream ? END_STREAM : 0, stream, bytes.subarray(at, at + MOST)));
  }
  return Buffer.concat(frames);
}

export function reset(stream: number): Buffer {
  return frame(FRAME.reset, 0, stream, u32(CANCEL));
}

/** Connection preface of a client. */
export function opening(): Buffer {
  return Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0)]);
}

function hpackString(text: string): [Buffer, Buffer] {
  const bytes = Buffer.from(text, 'latin1');
  if (bytes.length < 127) return [Buffer.from([bytes.length]), bytes];
  const rest = bytes.length - 127;
  return [rest < 128 ? Buffer.from([127, rest]) : Buffer.from([127, (rest & 127) | 128, rest >> 7]), bytes];
}
