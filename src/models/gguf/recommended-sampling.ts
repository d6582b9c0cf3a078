/**
 * Sampler settings that a model's file recommends (`general.sampling.*`), under the names of requests. The engine reads
 * them itself (native/engine/llama/llama_model.cc); here they are read to be shown.
 */
import type { Sampling } from '../../protocol/generate.ts';
import type { GgufEntry } from './gguf-values.ts';

/** Names in the file, with the bounds outside which the engine ignores a value. */
const KEYS: Readonly<Record<string, readonly [name: keyof Sampling, least: number, most: number]>> = {
  temp: ['temperature', 0, 100],
  top_k: ['top_k', 0, 2 ** 31 - 1],
  top_p: ['top_p', 0, 1],
  min_p: ['min_p', 0, 1],
  xtc_probability: ['xtc_probability', 0, 1],
  xtc_threshold: ['xtc_threshold', 0, 1],
  mirostat: ['mirostat', 0, 2],
  mirostat_tau: ['mirostat_tau', 0, 100],
  mirostat_eta: ['mirostat_eta', 0, 1],
  penalty_last_n: ['repeat_last_n', 0, 65_536],
  penalty_repeat: ['repeat_penalty', 0.1, 10],
};

/** `metadata`: of a model's file. */
export function recommendedSampling(metadata: ReadonlyMap<string, GgufEntry>): Partial<Sampling> {
  const found = Object.entries(KEYS).flatMap(([key, [name, least, most]]) => {
    const value = metadata.get(`general.sampling.${key}`)?.value;
    const isGood = typeof value === 'number' && value >= least && value <= most;
    // Six digits: the file has single precision.
    return isGood ? [[name, Number(value.toPrecision(6))] as const] : [];
  });
  return Object.fromEntries(found);
}
