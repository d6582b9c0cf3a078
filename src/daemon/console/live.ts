/** Samples of what the daemon does now, for the plots of the console. Each stream compares with its own last sample. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LiveEngine, LiveEvent, LiveProvider, LiveSample } from '../../protocol/live.ts';
import type { LoadedModelHealth } from '../../protocol/records.ts';
import { LOCAL } from '../../routing/policy.ts';
import type { Router } from '../../routing/router.ts';

export interface LiveSource {
  readonly router: Pick<Router, 'running' | 'waiting' | 'active' | 'providerHealth'>;
  loaded(): readonly LoadedModelHealth[];
}

export interface LiveOptions {
  readonly intervalMs: number;
  /** The stream ends after so many samples. Absent: never. */
  readonly count?: number;
}

const MOST_REQUESTS = 200;

/** Yields a sample at once and after each interval. Rejects with the reason of `signal`. */
export async function* live(
  source: LiveSource,
  { intervalMs, count = Infinity }: LiveOptions,
  signal: AbortSignal,
): AsyncGenerator<LiveEvent, void, undefined> {
  let last = stateOf(source);
  for (let n = 0; n < count; n += 1) {
    if (n > 0) await sleep(intervalMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    const now = stateOf(source);
    yield sampleOf(source, last, now);
    last = now;
  }
  yield { type: 'end' };
}

/** What rates are computed from. */
interface State {
  /** `performance.now()`. */
  readonly at: number;
  /** Prompt tokens of each engine since its start. */
  readonly prompts: ReadonlyMap<number | null, number>;
  readonly pieces: ReadonlyMap<string, number>;
}

function stateOf({ router, loaded }: LiveSource): State {
  return {
    at: performance.now(),
    prompts: new Map(loaded().map(({ pid, steps }) => [pid, steps?.prompt_tokens ?? 0])),
    pieces: new Map(router.providerHealth().map(({ name }) => [name, router.running.sumsOf(name).pieces])),
  };
}

function sampleOf(source: LiveSource, last: State, now: State): LiveSample {
  const { router, loaded } = source;
  const seconds = (now.at - last.at) / 1000;
  const rate = (from: number | undefined, to: number): number =>
    from === undefined || seconds <= 0 ? 0 : round(Math.max(0, to - from) / seconds);
  const firsts = router.running.firstsAfter(last.at);
  const ttft = (isOf: (first: (typeof firsts)[number]) => boolean): number | null =>
    median(firsts.filter(isOf).map(({ ms }) => ms));

  const engines = loaded().map((model): LiveEngine => {
    const { id, pid, state, steps } = model;
    return {
      model: id,
      state,
      pid,
      // An idle engine reports no speed.
      tokens_per_second: steps === null ? null : round(model.tokens_per_second ?? 0),
      prompt_tokens_per_second: steps === null ? null : rate(last.prompts.get(pid), steps.prompt_tokens),
      ttft_ms: ttft((first) => first.provider === LOCAL && first.model === id),
      running: model.active,
      waiting: model.waiting,
      cache_cells_used: model.kv_cells_used,
      cache_cells_cached: model.kv_cells_cached,
      cache_cells: model.kv_cells_total,
      memory_bytes: model.rss_bytes,
    };
  });
  const providers = router.providerHealth().map(({ name }): LiveProvider => {
    const { requests, pieces } = router.running.sumsOf(name);
    return {
      name,
      requests,
      tokens_per_second: rate(last.pieces.get(name), pieces),
      ttft_ms: ttft((first) => first.provider === name),
    };
  });
  return {
    type: 'sample',
    time: new Date().toISOString(),
    engines,
    providers,
    requests: router.running.list(MOST_REQUESTS),
    queue: { waiting: router.waiting, running: router.active },
    daemon: { memory_bytes: process.memoryUsage.rss(), uptime_s: Math.round(process.uptime()) },
  };
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  return middle === undefined ? null : round(middle);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
