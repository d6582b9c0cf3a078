/** One HTTP request and its reply. */
import type { IncomingMessage } from 'node:http';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Span } from '../../protocol/traces/span.ts';
import type { Services } from '../services.ts';
import type { BodyShare } from './body-budget.ts';
import type { Reply, StreamFormat } from './reply.ts';

export interface Exchange {
  /** Id of the request: header `x-request-id`, field of its log lines and errors. */
  readonly id: string;
  readonly span: Span;
  readonly req: IncomingMessage;
  readonly reply: Reply;
  readonly services: Services;
  /** Bytes of the body budget; given back when the handler has settled. */
  readonly body: BodyShare;
  /** `performance.now()` when the headers were complete. */
  readonly arrivedAt: number;
  readonly query: URLSearchParams;
  /** Decoded text for the `*` of the route's path; empty without one. */
  readonly param: string;
  /** null: a caller without a valid key, on a route that needs none. */
  readonly caller: Caller | null;
  /** Aborted with CANCELLED when the client goes away before the answer is complete. */
  readonly signal: AbortSignal;
}

type RequestContext = Parameters<Services['router']['route']>[1];

/** Returns the context of a request for the backends. Throws UNAUTHORIZED without a caller. */
export function contextOf({ id, span, arrivedAt, signal, caller }: Exchange): RequestContext {
  if (caller === null) throw new SvcError('UNAUTHORIZED', 'an API key is needed');
  return { traceId: id, span, arrivedAt, signal, caller };
}

/** Awaits a stream that its client ends by leaving: then it resolves, because nothing has failed. */
export async function untilLeft({ signal }: Pick<Exchange, 'signal'>, stream: Promise<void>): Promise<void> {
  try {
    await stream;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * Answers a GET with a stream that its client ends by leaving; `send` writes it. A HEAD gets the headers at once, and
 * `send` is not called.
 */
export async function streamOfGet(exchange: Exchange, format: StreamFormat, send: () => Promise<void>): Promise<void> {
  const { req, reply } = exchange;
  if (req.method !== 'HEAD') {
    await untilLeft(exchange, send());
    return;
  }
  reply.stream(format);
  await reply.write('');
  reply.end();
}

/** Answers through `reply`, or throws: the server then answers with the error and logs it. */
export type Handler = (exchange: Exchange) => Promise<void> | void;
