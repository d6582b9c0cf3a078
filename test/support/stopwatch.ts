/**
 * Measures guarantees such as "within a second". On a busy machine a process also waits for a CPU, which says nothing
 * about svc. On Linux that run-queue time is subtracted, so that the time svc itself took remains. It is that of all
 * threads, because work of the main thread continues in the thread pool.
 */
import { readdirSync, readFileSync } from 'node:fs';

export interface Stopwatch {
  /** Milliseconds since the start, minus the time that the watched processes waited for a CPU. */
  ms(): number;
}

/** Starts a stopwatch over this process and `pids`. */
export function startStopwatch(...pids: readonly number[]): Stopwatch {
  const watched = [process.pid, ...pids];
  const before = waits(watched);
  const from = performance.now();
  return {
    ms: () => {
      const elapsed = performance.now() - from;
      const waited = [...waits(watched)].reduce((sum, [thread, ms]) => sum + ms - (before.get(thread) ?? 0), 0);
      return Math.max(0, elapsed - waited);
    },
  };
}

/** Run-queue time of each thread since its start, in ms, by its path; without what the kernel does not report. */
function waits(pids: readonly number[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const folder of pids.map((pid) => `/proc/${String(pid)}/task`)) {
    for (const thread of orNone(() => readdirSync(folder))) {
      const path = `${folder}/${thread}/schedstat`;
      for (const text of orNone(() => [readFileSync(path, 'utf8')])) found.set(path, Number(text.split(' ')[1]) / 1e6);
    }
  }
  return found;
}

/** Processes and threads end. */
function orNone(read: () => string[]): string[] {
  try {
    return read();
  } catch {
    return [];
  }
}
