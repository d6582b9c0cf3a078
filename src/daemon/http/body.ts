/**
 * Reads a request's body within limits: bytes of one body, bytes of all bodies together and, of JSON, nesting depth and
 * number of values. Each limit is checked as the bytes arrive, before anything is parsed.
 */
import { isUtf8 } from 'node:buffer';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/generate.ts';
import type { Exchange } from './exchange.ts';
import { JsonGauge } from '../../files/json-gauge.ts';

/** Limit of chunks. A body of full size over a slow link has thirty thousand; each costs some microseconds. */
export const MAX_PIECES = 65_536;
const FIRST_BYTES = 4096;

/** Throws REQUEST_TOO_LARGE, BUSY, INVALID_REQUEST, or CANCELLED when the client goes away. */
export async function readJson(exchange: Exchange): Promise<unknown> {
  const gauge = new JsonGauge();
  const body = await readBytes(exchange, LIMITS.bodyBytes, (chunk) => gauge.check(chunk, 'the body'));
  if (!isUtf8(body)) throw new SvcError('INVALID_REQUEST', 'the body is not valid UTF-8');
  const value = parse(body);
  // From here on only the parsed value is held: the buffer, with its white space, is garbage.
  if (!exchange.body.resize(gauge.heldBytes)) throw tooMany();
  return value;
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    // V8's message quotes the text, which may be a prompt.
    throw new SvcError('INVALID_REQUEST', body.length === 0 ? 'the body is empty' : 'the body is not valid JSON');
  }
}

/** Reads at most `most` bytes. `check` gets each chunk and may throw. Throws as `readJson`. */
export async function readBytes(exchange: Exchange, most: number, check?: (chunk: Buffer) => void): Promise<Buffer> {
  const { req, reply } = exchange;
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') throw new SvcError('INVALID_REQUEST', 'a compressed body is not accepted');
  if (Number(req.headers['content-length'] ?? 0) > most) throw tooLarge(most);
  if (req.headers.expect?.toLowerCase() === '100-continue') reply.continue();
  return collect(exchange, most, check);
}

/** Not by `for await`: leaving that loop would destroy the connection before the answer is sent. */
function collect(
  { req, body, signal }: Exchange,
  most: number,
  check: ((chunk: Buffer) => void) | undefined,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // One doubling buffer, not a list: a body may come in chunks of one byte, each of which would cost a hundred.
    let buffer = Buffer.alloc(0);
    let length = 0;
    let pieces = 0;

    const settle = (): void => {
      req.off('data', onData).off('end', onEnd);
      signal.removeEventListener('abort', onAbort);
    };
    const fail = (error: SvcError): void => {
      settle();
      body.resize(0);
      // Discard the rest of the body, so that the client can read the answer.
      req.resume();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      pieces += 1;
      if (pieces > MAX_PIECES) {
        fail(new SvcError('INVALID_REQUEST', `the body comes in more than ${String(MAX_PIECES)} pieces`));
        // Discarding them would cost as much as reading them.
        req.pause();
        return;
      }
      const needed = length + chunk.length;
      if (needed > most) return fail(tooLarge(most));
      if (needed > buffer.length) {
        const larger = Math.min(most, Math.max(FIRST_BYTES, 2 ** Math.ceil(Math.log2(needed))));
        if (!body.resize(larger)) return fail(tooMany());
        const before = buffer;
        buffer = Buffer.allocUnsafeSlow(larger);
        before.copy(buffer, 0, 0, length);
      }
      chunk.copy(buffer, length);
      length = needed;
      try {
        check?.(chunk);
      } catch (error) {
        fail(SvcError.from(error));
      }
    };
    const onEnd = (): void => {
      settle();
      resolve(buffer.subarray(0, length));
    };
    const onAbort = (): void => fail(SvcError.from(signal.reason));
    req.on('data', onData).on('end', onEnd);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
}

/** Counts further bytes that the request holds as if they had come in its body. Throws BUSY. */
export function countBytes({ body }: Exchange, bytes: number): void {
  if (!body.add(bytes)) throw tooMany();
}

/** Changes what the request holds to this number of bytes. Throws BUSY. */
export function resizeBytes({ body }: Exchange, bytes: number): void {
  if (!body.resize(bytes)) throw tooMany();
}

function tooMany(): SvcError {
  return new SvcError('BUSY', 'too many large requests at once');
}

function tooLarge(most: number): SvcError {
  return new SvcError('REQUEST_TOO_LARGE', `the body is larger than ${String(most)} bytes`);
}
