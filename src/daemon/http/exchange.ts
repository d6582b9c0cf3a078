/** One request and the way its answer leaves. */
import type { IncomingMessage } from 'node:http';
import type { Services } from '../services.ts';
import type { BodyBudget } from './body-budget.ts';
import type { Reply } from './reply.ts';

export interface Exchange {
  /** The request's: header `x-request-id`, trace id, in each of its log lines and errors. */
  readonly id: string;
  readonly req: IncomingMessage;
  readonly reply: Reply;
  readonly services: Services;
  readonly bodies: BodyBudget;
  /** `performance.now()` when the headers were complete. */
  readonly arrivedAt: number;
  readonly query: URLSearchParams;
  /** What the `*` of the route's path stands for, decoded; empty without one. */
  readonly param: string;
  /** The caller may see more than a probe needs. */
  readonly trusted: boolean;
  /** Aborted with CANCELLED when the client goes away before the answer is complete. */
  readonly signal: AbortSignal;
}

/** Answers through `reply`, or throws: the server makes the error's answer and its log line. */
export type Handler = (exchange: Exchange) => Promise<void> | void;
