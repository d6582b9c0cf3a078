/**
 * Embedding requests and their events: the same types at every hop, like those of generate.ts for prompts.
 * Vectors are sent as they are computed, in the order of the inputs.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, type AnswerFacts, type FinishEvent, type StartEvent } from './generate.ts';
import { LIMITS } from './limits.ts';
import { invalid, parse } from './validate.ts';

const { model, truncate, route, context_length, keep_alive_seconds, timeout_ms } = GenerateRequestSchema.entries;
const token = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0x7fff_ffff));

export const EmbedRequestSchema = v.object({
  /** Id or alias of an installed model, or `provider/model`. Absent: the route's default. */
  model,
  /** Texts, or token ids of the model's vocabulary, which are used unchanged. */
  input: v.pipe(
    v.array(v.union([v.pipe(v.string(), v.minLength(1)), v.pipe(v.array(token), v.minLength(1))])),
    v.minLength(1),
    v.maxLength(LIMITS.embedInputs),
  ),
  /** true: cuts the end off an input that is too long; the usage counts the tokens cut. Otherwise it is refused. */
  truncate,
  /** Vector length. Absent: the model's own. */
  dimensions: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.embedDimensions))),
  route,
  context_length,
  keep_alive_seconds,
  timeout_ms,
});
export type EmbedRequest = v.InferOutput<typeof EmbedRequestSchema>;

/** Throws INVALID_REQUEST with `param`. */
export function parseEmbedRequest(value: Readonly<Record<string, unknown>>): EmbedRequest {
  const { input } = value;
  // Counted before they are validated one by one: there may be millions.
  const tokens = Array.isArray(input)
    ? input.reduce<number>((sum, each) => sum + (Array.isArray(each) ? each.length : 0), 0)
    : 0;
  if (tokens > LIMITS.embedTokens) throw invalid('input', `must have at most ${String(LIMITS.embedTokens)} token ids`);
  return parse(EmbedRequestSchema, value);
}

/** Vectors of the next inputs, in order. All have Euclidean norm 1 and the same dimension. */
export interface VectorsEvent {
  readonly type: 'vectors';
  readonly vectors: readonly Float32Array[];
}
/** The usage in the finish event counts input tokens only. */
export type EmbedEvent = StartEvent | VectorsEvent | FinishEvent;

/** The whole answer. */
export interface EmbedResult extends AnswerFacts {
  /** One for each input, in order. All have Euclidean norm 1 and the same dimension. */
  readonly embeddings: readonly Float32Array[];
}
