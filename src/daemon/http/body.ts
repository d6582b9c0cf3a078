/**
 * A request's JSON body, read within bounds: bytes of one body, bytes of all bodies together, depth
 * of nesting. Each bound is checked as the bytes arrive, before anything is parsed.
 */
import { isUtf8 } from 'node:buffer';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/generate.ts';
import { DepthGauge } from './depth-gauge.ts';
import type { Exchange } from './exchange.ts';

/** Brackets and braces inside each other. */
export const MAX_DEPTH = 64;

/** Throws REQUEST_TOO_LARGE, BUSY, INVALID_REQUEST, or CANCELLED when the client goes away. */
export async function readJson(exchange: Exchange): Promise<unknown> {
  const { req, reply } = exchange;
  const encoding = req.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity') throw new SvcError('INVALID_REQUEST', 'a compressed body is not accepted');
  if (Number(req.headers['content-length'] ?? 0) > LIMITS.bodyBytes) throw tooLarge();
  if (req.headers.expect?.toLowerCase() === '100-continue') reply.continue();

  const body = await readBody(exchange);
  if (!isUtf8(body)) throw new SvcError('INVALID_REQUEST', 'the body is not valid UTF-8');
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    // V8's message quotes the text, which may be a prompt.
    throw new SvcError('INVALID_REQUEST', body.length === 0 ? 'the body is empty' : 'the body is not valid JSON');
  }
}

/** Not by `for await`, which would destroy the connection together with the loop and the answer with it. */
function readBody({ req, reply, bodies, signal }: Exchange): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const depth = new DepthGauge();
    let held = 0;
    reply.onClose(() => bodies.give(held));

    const settle = (): void => {
      req.off('data', onData).off('end', onEnd);
      signal.removeEventListener('abort', onAbort);
    };
    const fail = (error: SvcError): void => {
      settle();
      // What still comes is thrown away, so that the client gets to read the answer.
      req.resume();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      if (held + chunk.length > LIMITS.bodyBytes) return fail(tooLarge());
      if (!bodies.take(chunk.length)) return fail(new SvcError('BUSY', 'too many large requests at once'));
      held += chunk.length;
      if (depth.measure(chunk) > MAX_DEPTH) return fail(tooDeep());
      chunks.push(chunk);
    };
    const onEnd = (): void => {
      settle();
      resolve(Buffer.concat(chunks, held));
    };
    const onAbort = (): void => fail(SvcError.from(signal.reason));
    req.on('data', onData).on('end', onEnd);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
}

function tooLarge(): SvcError {
  return new SvcError('REQUEST_TOO_LARGE', `the body is larger than ${String(LIMITS.bodyBytes)} bytes`);
}

function tooDeep(): SvcError {
  return new SvcError('INVALID_REQUEST', `the body is nested deeper than ${String(MAX_DEPTH)} levels`);
}
