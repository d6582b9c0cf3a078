/**
 * Texts in, vectors out: the same types at every hop, as generate.ts has them for prompts. The vectors
 * come as they are computed, in the order of the inputs.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, type FinishEvent, type StartEvent } from './generate.ts';
import { LIMITS } from './limits.ts';
import { invalid, parse } from './validate.ts';

const { model, truncate, route, context_length, keep_alive_seconds, timeout_ms } = GenerateRequestSchema.entries;
const token = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(0x7fff_ffff));

export const EmbedRequestSchema = v.object({
  /** Id or alias of an installed model, or `provider/model`. Absent: the default of the route. */
  model,
  /** Texts, or token ids of the model's own vocabulary, which are taken as they are. */
  input: v.pipe(
    v.array(v.union([v.pipe(v.string(), v.minLength(1)), v.pipe(v.array(token), v.minLength(1))])),
    v.minLength(1),
    v.maxLength(LIMITS.embedInputs),
  ),
  /** true: an input that is too long for the model loses its end, and the usage tells how much. Otherwise it is refused. */
  truncate,
  /** Numbers of a vector. Absent: as many as the model makes. */
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
  // Counted before any of them is looked at: there may be millions.
  const tokens = Array.isArray(input)
    ? input.reduce<number>((sum, each) => sum + (Array.isArray(each) ? each.length : 0), 0)
    : 0;
  if (tokens > LIMITS.embedTokens) throw invalid('input', `must have at most ${String(LIMITS.embedTokens)} token ids`);
  return parse(EmbedRequestSchema, value);
}

/** Of the inputs after those whose vectors came before. Each has length 1 and as many numbers as the others. */
export interface VectorsEvent {
  readonly type: 'vectors';
  readonly vectors: readonly Float32Array[];
}
/** The finish's usage counts input tokens only. */
export type EmbedEvent = StartEvent | VectorsEvent | FinishEvent;
