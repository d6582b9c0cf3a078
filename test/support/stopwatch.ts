/**
 * Measures guarantees such as "within a second". On a busy machine a process also waits for a CPU, which says nothing
 * about svc. On Linux that run-queue time is subtracted, so that the time svc itself took remains.
 */
import { readFileSync } from 'node:fs';

export interface Stopwatch {
  /** Milliseconds since the start, minus the time that the watched processes waited for a CPU. */
  ms(): number;
}

/** Starts a stopwatch over the main threads of this process and of `pids`, which run one at a time while measured. */
export function startStopwatch(...pids: readonly number[]): Stopwatch {
  const watched = [process.pid, ...pids];
  const waited = new Map(watched.map((pid) => [pid, waitedMs(pid)]));
  const from = performance.now();
  return {
    ms: () => {
      const elapsed = performance.now() - from;
      for (const pid of watched) if (waitedMs(pid) === null) waited.delete(pid);
      const waiting = [...waited].reduce((sum, [pid, before]) => sum + (waitedMs(pid) ?? 0) - (before ?? 0), 0);
      return Math.max(0, elapsed - waiting);
    },
  };
}

/** Run-queue time of the main thread since process start, in ms; null if the kernel does not report it. */
function waitedMs(pid: number): number | null {
  try {
    return Number(readFileSync(`/proc/${String(pid)}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return null;
  }
}
