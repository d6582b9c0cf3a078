/** One request and the way its answer leaves. */
import type { IncomingMessage } from 'node:http';
import type { Caller } from '../../protocol/caller.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { Services } from '../services.ts';
import type { BodyShare } from './body-budget.ts';
import type { Reply } from './reply.ts';

export interface Exchange {
  /** The request's: header `x-request-id`, trace id, in each of its log lines and errors. */
  readonly id: string;
  readonly req: IncomingMessage;
  readonly reply: Reply;
  readonly services: Services;
  /** Given back when the handler has settled. */
  readonly body: BodyShare;
  /** `performance.now()` when the headers were complete. */
  readonly arrivedAt: number;
  readonly query: URLSearchParams;
  /** What the `*` of the route's path stands for, decoded; empty without one. */
  readonly param: string;
  /** null: a stranger, on a route that answers strangers. */
  readonly caller: Caller | null;
  /** Aborted with CANCELLED when the client goes away before the answer is complete. */
  readonly signal: AbortSignal;
}

type RequestContext = Parameters<Services['router']['route']>[1];

/** What travels with a request to the backends. Throws UNAUTHORIZED for a stranger. */
export function contextOf({ id, arrivedAt, signal, caller }: Exchange): RequestContext {
  if (caller === null) throw new SvcError('UNAUTHORIZED', 'an API key is needed');
  return { traceId: id, arrivedAt, signal, caller };
}

/** Answers through `reply`, or throws: the server makes the error's answer and its log line. */
export type Handler = (exchange: Exchange) => Promise<void> | void;
