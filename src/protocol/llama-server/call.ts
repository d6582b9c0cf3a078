/**
 * What `POST /completion` and `POST /infill` have in common: llama-server's fields of an answer, converted to a request
 * with a raw prompt. Fields are treated as in openai/chat-request.ts.
 *
 * Ignored, because they change only how llama-server computes, or when it reports them: `cache_prompt`, `id_slot`,
 * `timings_per_token`. Ignored because editors always send them: `samplers` (the order is fixed) and `t_max_prompt_ms`
 * (llama-server ignores it, too).
 */
import * as v from 'valibot';
import { LIMITS } from '../limits.ts';
import type { RawPrompt } from '../generate.ts';
import { given } from '../given.ts';
import type { ChatCompletionCall } from '../openai/chat-request.ts';
import { formatOf } from '../openai/response-format.ts';
import { sharedRequest, SHARED_FIELDS, toMaxTokens, type Unsupported } from '../openai/shared-fields.ts';

export interface LlamaCall extends Pick<ChatCompletionCall, 'request' | 'isWarmUp' | 'stream' | 'names'> {
  readonly limits: LineLimits;
  /** Names of the answer's fields; empty: all. */
  readonly responseFields: readonly string[];
}

/** Limits of an answer by its lines. */
export interface LineLimits {
  /** Minimum indentation of all lines but the first, in spaces and tabs; the answer ends before a line with less. */
  readonly indent: number;
  /** Milliseconds after the first text; the next line break then ends the answer. 0 or less: no limit. */
  readonly predictMs: number;
}

const { n_predict: limit } = SHARED_FIELDS;

/** Entries of a schema. */
export const ANSWER_FIELDS = {
  ...SHARED_FIELDS,
  /** Other names of `n_predict`, in the order in which llama-server looks for them. */
  max_completion_tokens: limit,
  max_tokens: limit,
  n_indent: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(0)), 0),
  t_max_predict_ms: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(-1)), -1),
  response_fields: v.exactOptional(
    v.pipe(v.array(v.pipe(v.string(), v.maxLength(LIMITS.responseFieldLength))), v.maxLength(LIMITS.responseFields)),
    [],
  ),
};
type AnswerFields = v.InferOutput<v.ObjectSchema<typeof ANSWER_FIELDS, undefined>>;

/** `call`: `fields` after their validation. Throws INVALID_REQUEST with `param`. */
export function toCall(call: AnswerFields, fields: Readonly<Record<string, unknown>>, raw: RawPrompt): LlamaCall {
  const format = formatOf(fields);
  const most = call.n_predict ?? call.max_completion_tokens ?? call.max_tokens;
  return {
    request: {
      ...sharedRequest(call, fields),
      messages: [],
      raw,
      ...given({ max_tokens: toMaxTokens(most), format: format?.format }),
    },
    isWarmUp: most === 0,
    limits: { indent: call.n_indent, predictMs: call.t_max_predict_ms },
    responseFields: call.response_fields,
    stream: call.stream,
    names: format === null ? [] : [format.names],
  };
}

const isOne = (value: unknown): boolean => value === 1;
const isZero = (value: unknown): boolean => value === 0;
/** Fields that would change the answer. */
export const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map<string, Unsupported>([
  ['n', [isOne, 'must be 1']],
  ['n_probs', [isZero, 'is not supported: use logprobs of /v1/completions']],
  ['logprobs', [isZero, 'is not supported: use logprobs of /v1/completions']],
]);
