/** The fields that OpenAI's chat completions and its legacy completions have in common, and our extensions of both. */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS, LoraSchema, SamplingSchema, type GenerateRequest } from '../generate.ts';
import { given } from '../given.ts';
import { KeepAliveSchema } from '../keep-alive.ts';
import { clientFields, invalid, parse, stopList } from '../validate.ts';

const { model } = GenerateRequestSchema.entries;
const bias = v.pipe(v.number(), v.minValue(-100), v.maxValue(100));

/**
 * The fields that have our name and meaning. `store`: OpenAI stores the answer if true; here false keeps the prompt
 * out of the prefix cache's disk tier.
 */
const SameSchema = v.pick(GenerateRequestSchema, [
  'truncate',
  'stop',
  'repetition_guard',
  'route',
  'fallback',
  'priority',
  'context_length',
  'store',
]);

/** Entries of a schema. */
export const SHARED_FIELDS = {
  model,
  /** Keys are token ids as strings, since JSON keys are strings. */
  logit_bias: v.exactOptional(
    v.pipe(v.record(v.pipe(v.string(), v.regex(/^\d{1,10}$/)), bias), v.maxEntries(LIMITS.logitBias)),
  ),
  ...SameSchema.entries,
  /** A number is the place of an adapter in the model's list, as in llama-server. */
  lora: v.exactOptional(
    v.pipe(
      v.array(
        v.object({
          id: v.union([LoraSchema.entries.id, v.pipe(v.number(), v.integer(), v.minValue(0))]),
          scale: LoraSchema.entries.scale,
        }),
      ),
      v.maxLength(LIMITS.lora),
    ),
  ),
  /** llama-server's limit of tokens, before those with other names. Negative: none; 0: only computes the prompt. */
  n_predict: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(-2), v.maxValue(LIMITS.maxTokens))),
  n: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(LIMITS.choices)), 1),
  keep_alive: KeepAliveSchema,
  stream: v.exactOptional(v.boolean(), false),
  stream_options: v.exactOptional(v.looseObject({ include_usage: v.nullish(v.boolean(), false) })),
};
type Shared = v.InferOutput<v.ObjectSchema<typeof SHARED_FIELDS, undefined>>;

/** Why an unsupported field is refused, and which of its values are allowed because they change nothing. */
export type Unsupported = readonly [asksNothing: (value: unknown) => boolean, what: string];

const isOff = (value: unknown): boolean => typeof value === 'number' && value <= 0;
const isFalse = (value: unknown): boolean => value === false;

/** Fields of llama-server that would change the answer. Its other further fields are ignored, as unknown ones are. */
const LLAMA_SERVER: readonly (readonly [name: string, Unsupported])[] = [
  ['top_n_sigma', [isOff, 'is not supported: svc has no such sampler']],
  ['adaptive_target', [isOff, 'is not supported: svc has no such sampler']],
  ['min_keep', [isOff, 'is not supported: samplers keep at least one candidate']],
  ['ignore_eos', [isFalse, 'is not supported: an answer ends where the model ends it']],
  ['n_cmpl', [(value) => value === 1, 'is not supported: use n']],
  ['return_tokens', [isFalse, 'is not supported: answers are texts; /tokenize has their tokens']],
];

/**
 * Copy of the body without the fields whose value means "absent", ready for the schemas. Throws INVALID_REQUEST for
 * the unsupported fields.
 */
export function readFields(body: unknown, unsupported: ReadonlyMap<string, Unsupported>): Record<string, unknown> {
  const fields = withoutAbsent(body);
  for (const [name, [asksNothing, what]] of [...unsupported, ...LLAMA_SERVER]) {
    if (fields[name] !== undefined && !asksNothing(fields[name])) throw invalid(name, what);
  }
  if (fields['stop'] !== undefined) fields['stop'] = stopList(fields['stop']);
  if (Array.isArray(fields['logit_bias'])) fields['logit_bias'] = biasesOf(fields['logit_bias']);
  return fields;
}

/** Lowest bias: the token is practically never sampled. */
const NEVER = -100;

/** llama-server's list of pairs as OpenAI's object; `false` is a token that is never sampled. */
function biasesOf(pairs: readonly unknown[]): object {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [id, bias] = Array.isArray(pair) ? (pair as unknown[]) : [];
      if (typeof id !== 'number')
        throw invalid('logit_bias', 'must be an object that maps token ids to biases, or a list of pairs of them');
      return [String(id), bias === false ? NEVER : bias];
    }),
  );
}

/**
 * Converts a client's limit. Negative: no limit. 0 becomes 1: the engine computes a prompt only to generate a token.
 */
export function toMaxTokens(limit: number | undefined): number | undefined {
  return limit === undefined || limit < 0 ? undefined : Math.max(1, limit);
}

/** `call`: `fields` after their validation. */
export function sharedRequest(
  call: Shared,
  fields: Readonly<Record<string, unknown>>,
): Omit<GenerateRequest, 'messages'> {
  const biases = call.logit_bias === undefined ? undefined : Object.entries(call.logit_bias);
  return {
    ...parse(SameSchema, call),
    sampling: {
      ...samplingOf(fields),
      ...(biases === undefined ? {} : { logit_bias: biases.map(([id, value]) => [Number(id), value]) }),
    },
    ...given({
      model: call.model,
      lora: call.lora?.map(({ id, scale }) => ({ id: String(id), scale })),
      keep_alive_seconds: call.keep_alive,
    }),
  };
}

/**
 * The sampler settings without `logit_bias`. OpenAI's seeds have 64 bits, of which ours keeps the lower 32; -1 is a
 * random one. As in vLLM, a `top_k` of -1 is off.
 */
export function samplingOf(fields: Readonly<Record<string, unknown>>): GenerateRequest['sampling'] {
  const { logit_bias: _, seed, top_k, ...plain } = fields;
  const isWide = Number.isSafeInteger(seed) && seed !== -1;
  return parse(SamplingSchema, {
    ...plain,
    ...given({
      seed: isWide ? Number(BigInt.asUintN(32, BigInt(seed as number))) : seed === -1 ? undefined : seed,
      top_k: top_k === -1 ? 0 : top_k,
    }),
  });
}

function withoutAbsent(body: unknown): Record<string, unknown> {
  const isAbsent = ([name, value]: [string, unknown]): boolean =>
    value === -1 && (name === 'max_tokens' || name === 'max_completion_tokens');
  return Object.fromEntries(Object.entries(clientFields(body)).filter((field) => !isAbsent(field)));
}
