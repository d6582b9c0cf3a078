/**
 * Time for promises such as "within a second". A machine that is busy with other work keeps a process waiting for a
 * processor, which says nothing about svc: on Linux that time is not counted. What remains is what svc itself took.
 */
import { readFileSync } from 'node:fs';

export interface Stopwatch {
  /** Milliseconds since the start, without those that the processes waited for a processor. */
  ms(): number;
}

/** Starts one; it watches the main threads of this process and of `pids`, which take turns in what is measured. */
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

/** Of its main thread, since it began, in the queue of a processor; null where the kernel does not tell. */
function waitedMs(pid: number): number | null {
  try {
    return Number(readFileSync(`/proc/${String(pid)}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return null;
  }
}
