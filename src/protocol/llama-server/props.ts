/** `GET /props`: properties of a model in llama-server's format, without the path of its file. */
import type { Sampling } from '../generate.ts';
import type { ModelRecord } from '../records.ts';

/** Defaults of a model: from its file and from the config. */
export interface ModelDefaults {
  /** Jinja; null: the file has none. */
  readonly chat_template: string | null;
  /** Sampler settings of requests that set none. Absent ones have llama.cpp's defaults. */
  readonly sampling: Partial<Sampling>;
}

/** `slots`: answers that an engine computes at the same time. */
export function toProps(
  model: ModelRecord,
  { chat_template, sampling }: ModelDefaults,
  { slots, version }: { readonly slots: number; readonly version: string },
): object {
  const can = new Set(model.capabilities);
  return {
    default_generation_settings: {
      params: { ...LLAMA_DEFAULTS, ...sampling },
      n_ctx: model.loaded?.context_length ?? model.context_length,
    },
    total_slots: slots,
    model_alias: model.id,
    model_ftype: model.quantization,
    modalities: { vision: can.has('vision'), video: false, audio: can.has('audio') },
    endpoint_slots: false,
    endpoint_props: false,
    endpoint_metrics: true,
    chat_template: chat_template ?? '',
    build_info: `svc ${version}`,
    is_sleeping: model.loaded === null,
  };
}

/** As in native/engine/base/request.h. */
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
