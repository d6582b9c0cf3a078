/** `PARAMETER` in a Modelfile: what svc makes of each. docs/models.md has the same table; a test compares them. */
import * as v from 'valibot';
import { GenerateRequestSchema, SamplingSchema, type Sampling } from '../../protocol/generate.ts';
import type { ModelSettings } from '../../protocol/model/settings.ts';
import { suggest } from '../../protocol/suggest.ts';
import { complaint, invalid } from '../../protocol/validate.ts';

/** `set`: it becomes settings; `skipped`: it changes no answer, and is named; `refused`: with the reason. */
export type Treatment =
  | { readonly kind: 'set'; readonly setting: string; to(value: string, before: ModelSettings): ModelSettings }
  | { readonly kind: 'skipped'; readonly why: string }
  | { readonly kind: 'refused'; readonly why: string };

const { max_tokens, stop } = GenerateRequestSchema.entries;
const contextLength = v.pipe(v.number(), v.integer(), v.minValue(64), v.maxValue(16_777_216));
const layers = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(10_000));

/** Throws the reason why the value is wrong. */
function checked<Schema extends v.GenericSchema>(schema: Schema, value: unknown): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  throw new Error(complaint(result.issues[0]));
}

function numberOf(text: string): number {
  if (/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(text)) return Number(text);
  throw new Error('must be a number');
}

const skipped = (why: string): Treatment => ({ kind: 'skipped', why });
const refused = (why: string): Treatment => ({ kind: 'refused', why });

/** `absent`: a value that stands for "no value". */
function sampler(setting: keyof Sampling, absent?: number): Treatment {
  return {
    kind: 'set',
    setting: `sampling.${setting}`,
    to: (text, before) => {
      const value = numberOf(text);
      if (value === absent) return before;
      return {
        ...before,
        sampling: { ...before.sampling, [setting]: checked(SamplingSchema.entries[setting], value) },
      };
    },
  };
}

const whole = (
  setting: 'context_length' | 'gpu_layers' | 'max_tokens',
  schema: v.GenericSchema<number>,
): Treatment => ({
  kind: 'set',
  setting,
  // Negative: as many as possible.
  to: (text, before) => (numberOf(text) < 0 ? before : { ...before, [setting]: checked(schema, numberOf(text)) }),
});

const MACHINE = skipped('svc chooses it for the machine');

export const PARAMETERS: Readonly<Record<string, Treatment>> = {
  num_ctx: whole('context_length', contextLength),
  num_predict: whole('max_tokens', max_tokens.wrapped),
  num_gpu: whole('gpu_layers', layers),
  temperature: sampler('temperature'),
  top_k: sampler('top_k'),
  top_p: sampler('top_p'),
  min_p: sampler('min_p'),
  typical_p: sampler('typical_p'),
  repeat_last_n: {
    kind: 'set',
    setting: 'sampling.repeat_last_n',
    // -1: the whole context.
    to: (text, before) => {
      const value = numberOf(text) === -1 ? 65_536 : numberOf(text);
      const repeat_last_n = checked(SamplingSchema.entries.repeat_last_n.wrapped, value);
      return { ...before, sampling: { ...before.sampling, repeat_last_n } };
    },
  },
  repeat_penalty: sampler('repeat_penalty'),
  presence_penalty: sampler('presence_penalty'),
  frequency_penalty: sampler('frequency_penalty'),
  mirostat: sampler('mirostat'),
  mirostat_tau: sampler('mirostat_tau'),
  mirostat_eta: sampler('mirostat_eta'),
  seed: sampler('seed', -1),
  stop: {
    kind: 'set',
    setting: 'stop',
    to: (text, before) => ({ ...before, stop: checked(stop.wrapped, [...(before.stop ?? []), text]) }),
  },
  num_keep: skipped('svc never drops the middle of a prompt'),
  num_batch: MACHINE,
  num_thread: MACHINE,
  main_gpu: MACHINE,
  low_vram: MACHINE,
  f16_kv: MACHINE,
  use_mmap: MACHINE,
  use_mlock: MACHINE,
  numa: MACHINE,
  tfs_z: refused('llama.cpp has removed this sampler'),
  penalize_newline: refused('the penalties have no exception for line breaks'),
  logits_all: refused('each request sets it: logprobs'),
  vocab_only: refused('such a model generates nothing'),
};

/**
 * Adds the parameters of a request to settings, as if each were a line of a Modelfile. Also returns the parameters that
 * were skipped, and why. Throws INVALID_REQUEST with `param`.
 */
export function withParameters(
  settings: ModelSettings,
  parameters: Readonly<Record<string, string | number | boolean | readonly string[]>>,
): { readonly settings: ModelSettings; readonly skipped: readonly string[] } {
  const skipped: string[] = [];
  let made = settings;
  for (const [name, value] of Object.entries(parameters)) {
    const param = `parameters.${name}`;
    const rule = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
    const likely = suggest(name, Object.keys(PARAMETERS));
    if (rule === undefined)
      throw invalid(param, `is not known${likely === undefined ? '' : `: did you mean ${likely}?`}`);
    if (rule.kind === 'refused') throw invalid(param, `is not supported: ${rule.why}`);
    if (rule.kind === 'skipped') {
      skipped.push(`${name} is skipped: ${rule.why}`);
      continue;
    }
    const texts = typeof value === 'object' ? value : [String(value)];
    if (texts.length > 1 && name !== 'stop') throw invalid(param, 'must be a single value');
    for (const text of texts) {
      try {
        made = rule.to(text, made);
      } catch (error) {
        throw invalid(param, (error as Error).message);
      }
    }
  }
  return { settings: made, skipped };
}
