/**
 * The narrow waist: all that routing knows of whatever answers a prompt.
 *
 * Contract of every implementation, held by one conformance suite (test/backends/conformance.ts):
 * - `generate` yields `start`, then any number of `text`, `reasoning` and `tool_call`, then exactly one
 *   `finish`; or it throws a SvcError. It never ends without one of the two.
 * - `embed` yields `start`, then `vectors`, one for each input in their order, then one `finish`; or it
 *   throws. A backend, or a model, that makes no embeddings throws INVALID_REQUEST.
 * - Aborting `signal`, or returning from the iterator early, stops the work behind it, not only the
 *   reading; the iterator then throws `signal.reason` (a SvcError) or returns.
 * - Backpressure: a consumer that does not pull stops the producer within a bounded buffer.
 * - `close` lets running generations end and takes no new ones; `destroy` ends them with `error`.
 *   Both are idempotent and resolve when every process and socket owned is gone.
 */
import type { Caller } from '../protocol/caller.ts';
import type { EmbedEvent, EmbedRequest } from '../protocol/embed.ts';
import type { GenerateEvent, GenerateRequest } from '../protocol/generate.ts';
import type { ProviderRecord } from '../protocol/records.ts';
import type { SvcError } from '../protocol/errors.ts';

export interface Backend {
  /** `local`, or the provider's name. */
  readonly name: string;
  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<GenerateEvent>;
  embed(request: EmbedRequest, context: GenerateContext): AsyncIterable<EmbedEvent>;
  /** The models it can answer with, now; a provider is asked. */
  modelNames(signal: AbortSignal): Promise<readonly string[]>;
  record(): ProviderRecord;
  close(): Promise<void>;
  destroy(error: SvcError): Promise<void>;
}

export interface GenerateContext {
  /** Stands in every log line about the request. */
  readonly traceId: string;
  readonly caller: Caller;
  readonly signal: AbortSignal;
  /** `performance.now()` when the request arrived. */
  readonly arrivedAt: number;
}
