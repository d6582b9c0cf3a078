/**
 * Reranking requests and their events: the same types at every hop, like those of embed.ts. Scores are sent as they are
 * computed, in the order of the documents; the caller sorts them.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, type AnswerFacts, type FinishEvent, type StartEvent } from './generate.ts';
import { LIMITS } from './limits.ts';
import { parse } from './validate.ts';

const { model, truncate, route, context_length, keep_alive_seconds, timeout_ms } = GenerateRequestSchema.entries;

export const RerankRequestSchema = v.object({
  /** Id or alias of an installed model, or `provider/model`. Absent: the route's default. */
  model,
  query: v.pipe(v.string(), v.minLength(1)),
  /** Each is scored on its own, together with the query. May be empty texts. */
  documents: v.pipe(v.array(v.string()), v.minLength(1), v.maxLength(LIMITS.rerankDocuments)),
  /** A document with more tokens loses its end; the usage counts the tokens cut. Absent: no limit but the model's. */
  max_document_tokens: v.exactOptional(
    v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.contextLength)),
  ),
  /** true: cuts the end off a document that is too long; the usage counts the tokens cut. Otherwise it is refused. */
  truncate,
  route,
  context_length,
  keep_alive_seconds,
  timeout_ms,
});
export type RerankRequest = v.InferOutput<typeof RerankRequestSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseRerankRequest(value: Readonly<Record<string, unknown>>): RerankRequest {
  return parse(RerankRequestSchema, value);
}

/** Scores of the next documents, in order: higher is more relevant. Their range depends on the model. */
export interface ScoresEvent {
  readonly type: 'scores';
  readonly scores: readonly number[];
}
/** The usage in the finish event counts the input tokens of all pairs of query and document. */
export type RerankEvent = StartEvent | ScoresEvent | FinishEvent;

export interface RankedDocument {
  /** In the request's list. */
  readonly index: number;
  readonly score: number;
}

/** The whole answer. */
export interface RerankResult extends AnswerFacts {
  /** The most relevant first; of equal scores in the order of the request. */
  readonly results: readonly RankedDocument[];
}
