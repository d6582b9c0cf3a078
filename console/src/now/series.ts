/** Lines of the plots, from samples. */
import type { LiveEngine, LiveProvider, LiveSample } from '../../../src/protocol/live.ts';

export interface Series {
  readonly name: string;
  /** One for each sample; null: none then. */
  readonly values: readonly (number | null)[];
}

/** Seconds since 1970. */
export function timesOf(samples: readonly LiveSample[]): number[] {
  return samples.map(({ time }) => Date.parse(time) / 1000);
}

/** One line for each model that some sample has. */
export function ofEngines(samples: readonly LiveSample[], value: (engine: LiveEngine) => number | null): Series[] {
  return named(samples, (sample) => sample.engines.map((engine) => [engine.model, value(engine)]));
}

export function ofProviders(
  samples: readonly LiveSample[],
  value: (provider: LiveProvider) => number | null,
): Series[] {
  return named(samples, (sample) => sample.providers.map((provider) => [provider.name, value(provider)]));
}

export function ofAll(
  samples: readonly LiveSample[],
  name: string,
  value: (sample: LiveSample) => number | null,
): Series {
  return { name, values: samples.map(value) };
}

export function sum(values: readonly (number | null)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}

function named(
  samples: readonly LiveSample[],
  valuesOf: (sample: LiveSample) => readonly (readonly [string, number | null])[],
): Series[] {
  const rows = samples.map((sample) => new Map(valuesOf(sample)));
  const names = [...new Set(rows.flatMap((row) => [...row.keys()]))].sort();
  return names.map((name) => ({ name, values: rows.map((row) => row.get(name) ?? null) }));
}
