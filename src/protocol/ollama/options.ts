/**
 * `options` of a request: what svc makes of each. docs/ollama.md has the same table; a test compares them. Unknown ones
 * are ignored, as Ollama does.
 */
import * as v from 'valibot';
import { GenerateRequestSchema, SamplingSchema, type GenerateRequest } from '../generate.ts';
import { given } from '../given.ts';
import { LIMITS } from '../limits.ts';
import { invalid, parse, stopList } from '../validate.ts';

const { stop, max_tokens } = GenerateRequestSchema.entries;
const whole = v.pipe(v.number(), v.integer());

/** The samplers that have our name and meaning. */
const SAME = [
  'temperature',
  'top_p',
  'min_p',
  'typical_p',
  'repeat_penalty',
  'frequency_penalty',
  'presence_penalty',
  'mirostat',
  'mirostat_tau',
  'mirostat_eta',
] as const;

export const OptionsSchema = v.object({
  ...v.pick(SamplingSchema, SAME).entries,
  /** Negative: all candidates. */
  top_k: v.exactOptional(v.pipe(whole, v.maxValue(1_000_000))),
  /** -1: the whole context. */
  repeat_last_n: v.exactOptional(v.pipe(whole, v.minValue(-1), v.maxValue(65_536))),
  /** Negative: random. */
  seed: v.exactOptional(v.pipe(whole, v.maxValue(0xffff_ffff))),
  /** 0 or less: until the model ends its turn or the context is full. */
  num_predict: v.exactOptional(v.pipe(whole, v.maxValue(LIMITS.maxTokens))),
  stop,
});

/** Options that change no answer here, and why. */
export const IGNORED: Readonly<Record<string, string>> = {
  num_ctx: 'every request gets the context that it needs, as far as the model and the memory allow',
  num_keep: 'svc never drops the middle of a prompt',
  num_batch: 'svc chooses it for the machine',
  num_gpu: 'the config sets it for each model (`gpu_layers`); a request does not reload a model',
  main_gpu: 'the config sets it for each model (`main_gpu`); a request does not reload a model',
  num_thread: 'the config sets it (`engine.threads`)',
  numa: 'svc chooses it for the machine',
  low_vram: 'svc chooses it for the machine',
  f16_kv: 'the config sets it for each model (`cache_type`)',
  use_mmap: 'svc chooses it for the machine',
  use_mlock: 'svc chooses it for the machine',
  tfs_z: 'llama.cpp has removed this sampler; Ollama ignores it too',
  penalize_newline: 'the penalties have no exception for line breaks; Ollama ignores it too',
};

/** Options that are refused unless they have the value that changes nothing, and why. */
export const REFUSED: Readonly<Record<string, readonly [neutral: unknown, why: string]>> = {
  logits_all: [false, 'use logprobs'],
  vocab_only: [false, 'such a model generates nothing'],
  embedding_only: [false, 'use /api/embed'],
};

/** Throws INVALID_REQUEST with `param`. */
export function toSettings(options: unknown): Pick<GenerateRequest, 'sampling' | 'stop' | 'max_tokens'> {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw invalid('options', 'must be an object');
  const fields = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null));
  for (const [name, [neutral, why]] of Object.entries(REFUSED)) {
    if (fields[name] !== undefined && fields[name] !== neutral)
      throw invalid(`options.${name}`, `is not supported: ${why}`);
  }
  if (fields['stop'] !== undefined) fields['stop'] = stopList(fields['stop']);
  const {
    top_k,
    repeat_last_n,
    seed = -1,
    num_predict = -1,
    stop: stops,
    ...same
  } = parse(OptionsSchema, fields, 'options');
  return {
    sampling: {
      ...same,
      ...given({
        top_k: top_k === undefined ? undefined : Math.max(0, top_k),
        repeat_last_n: repeat_last_n === -1 ? 65_536 : repeat_last_n,
        seed: seed < 0 ? undefined : seed,
      }),
    },
    stop: stops,
    ...given({ max_tokens: num_predict < 1 ? undefined : parse(max_tokens, num_predict) }),
  };
}
