/** `GET /props`: properties of a model in llama-server's format, without the path of its file. */
import type { Sampling } from '../generate.ts';
import type { ListedModel } from '../model/listed.ts';

/** Defaults of a model: from its file and from the config. */
export interface ModelDefaults {
  /** Jinja; null: the file has none. */
  readonly chat_template: string | null;
  /** Sampler settings of requests that set none. Absent ones have llama.cpp's defaults. */
  readonly sampling: Partial<Sampling>;
}

/** `defaults`: null for a model that has no file here. `slots`: answers that an engine computes at the same time. */
export function toProps(
  { id, context_length, capabilities, record }: ListedModel,
  defaults: ModelDefaults | null,
  { slots, version }: { readonly slots: number; readonly version: string },
): object {
  const can = new Set(capabilities);
  return {
    default_generation_settings: {
      params: defaults === null ? {} : { ...LLAMA_DEFAULTS, ...defaults.sampling },
      n_ctx: context_length,
    },
    total_slots: defaults === null ? null : slots,
    model_alias: id,
    model_ftype: record?.quantization ?? null,
    modalities: { vision: can.has('vision'), video: false, audio: can.has('audio') },
    endpoint_slots: false,
    endpoint_props: false,
    endpoint_metrics: true,
    chat_template: defaults?.chat_template ?? '',
    build_info: `svc ${version}`,
    is_sleeping: record !== null && record.loaded === null,
  };
}

/** As in native/engine/types/sampling_params.h. */
const LLAMA_DEFAULTS: Partial<Sampling> = {
  temperature: 0.8,
  dynatemp_range: 0,
  dynatemp_exponent: 1,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  typical_p: 1,
  xtc_probability: 0,
  xtc_threshold: 0.1,
  mirostat: 0,
  mirostat_tau: 5,
  mirostat_eta: 0.1,
  repeat_last_n: 64,
  repeat_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  dry_multiplier: 0,
  dry_base: 1.75,
  dry_allowed_length: 2,
  dry_penalty_last_n: 64,
  dry_sequence_breakers: ['\n', ':', '"', '*'],
};
