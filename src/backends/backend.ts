/**
 * The interface between routing and everything that answers prompts.
 *
 * Contract of every implementation, tested by one conformance suite (test/backends/conformance.ts):
 * - `generate` yields `start`, then any number of `text`, `reasoning` and `tool_call`, then exactly one
 *   `finish`; or it throws a SvcError. It never ends otherwise.
 * - `embed` yields `start`, then `vectors`, one vector per input in order, then one `finish`; or it throws. A backend
 *   or model without embeddings throws INVALID_REQUEST.
 * - `rerank` yields `start`, then `scores`, one score per document in order, then one `finish`; or it throws. A backend
 *   or model that ranks nothing throws INVALID_REQUEST.
 * - `tokenize` yields `start`, one `tokens`, one `finish`; `detokenize` yields `start`, one `text`, one `finish`; or
 *   they throw. A backend that does not have the model's vocabulary throws INVALID_REQUEST.
 * - Aborting `signal` or returning from the iterator early stops the work itself, not only reading; the iterator then
 *   throws `signal.reason` (a SvcError) or returns.
 * - Back-pressure: if the consumer does not pull, the producer stops within a bounded buffer.
 * - `close` lets running generations finish and refuses new ones; `destroy` ends them with `error`. `interrupt` also
 *   does, but lets engines save what they have cached; absent if there is nothing to save. All are idempotent and
 *   resolve when every owned process and socket is gone.
 */
import type { Caller } from '../protocol/caller.ts';
import type { EmbedEvent, EmbedRequest } from '../protocol/embed.ts';
import type { GenerateEvent, GenerateRequest } from '../protocol/generate.ts';
import type { ProviderRecord } from '../protocol/records.ts';
import type { RerankEvent, RerankRequest } from '../protocol/rerank.ts';
import type { SvcError } from '../protocol/errors.ts';
import type { Span } from '../protocol/traces/span.ts';
import type { DetokenizeEvent, DetokenizeRequest, TokenizeEvent, TokenizeRequest } from '../protocol/tokenize.ts';

export interface Backend {
  /** `local`, or the provider's name. */
  readonly name: string;
  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<GenerateEvent>;
  embed(request: EmbedRequest, context: GenerateContext): AsyncIterable<EmbedEvent>;
  rerank(request: RerankRequest, context: GenerateContext): AsyncIterable<RerankEvent>;
  tokenize(request: TokenizeRequest, context: GenerateContext): AsyncIterable<TokenizeEvent>;
  detokenize(request: DetokenizeRequest, context: GenerateContext): AsyncIterable<DetokenizeEvent>;
  /** Names of the models available now; a provider is asked. */
  modelNames(signal: AbortSignal): Promise<readonly string[]>;
  record(): ProviderRecord;
  close(): Promise<void>;
  interrupt?(error: SvcError): Promise<void>;
  destroy(error: SvcError): Promise<void>;
}

export interface GenerateContext {
  /** Id of the request, in every log line about it. */
  readonly traceId: string;
  /** Span of the request that was received. Absent: it is not traced. */
  readonly span?: Span;
  readonly caller: Caller;
  readonly signal: AbortSignal;
  /** true: one of several answers that are computed at the same time, and have the `traceId` in common. */
  readonly isChoice?: boolean;
  /** `performance.now()` when the request arrived. */
  readonly arrivedAt: number;
  /**
   * A provider's backend awaits it right before it sends anything; rejects if the request may not be sent. Further calls
   * do nothing.
   */
  onSend?(): Promise<void>;
}
