/** Resource usage of the daemon and its engines, and what is free on this machine. Unknown values are null. */
import { statfs } from 'node:fs/promises';
import { availableParallelism, freemem, totalmem } from 'node:os';

/** An engine process as its supervisor reports it. */
export interface EngineProcess {
  readonly pid: number;
  readonly rssBytes: number | null;
  /** CPU time since its start, as reported by the engine; null before its first report. */
  readonly cpuMs: number | null;
}

export interface Resources {
  readonly sampledAt: string;
  /** Percent of one core since the previous sample. null: first sample. */
  readonly cpuPercent: number | null;
  readonly rssBytes: number | null;
  readonly memoryAvailableBytes: number | null;
}

/** Samples the daemon and its engines together; each sample covers the time since the previous one. */
export class ResourceMeter {
  #at = performance.now();
  #own = process.cpuUsage();
  #engines: ReadonlyMap<number, number> | null = null;

  sample(engines: readonly EngineProcess[]): Resources {
    const now = performance.now();
    const elapsedMs = now - this.#at;
    const used = process.cpuUsage(this.#own);
    const before = this.#engines;
    let usedMs = (used.user + used.system) / 1000;
    // An engine's own report is clamped to what it can have used. All CPU time of a new engine counts.
    const mostMs = elapsedMs * availableParallelism();
    for (const { pid, cpuMs } of engines)
      usedMs += Math.min(mostMs, Math.max(0, (cpuMs ?? 0) - (before?.get(pid) ?? 0)));
    this.#at = now;
    this.#own = process.cpuUsage();
    this.#engines = new Map(engines.map(({ pid, cpuMs }) => [pid, cpuMs ?? before?.get(pid) ?? 0]));
    return {
      sampledAt: new Date().toISOString(),
      cpuPercent: before === null || elapsedMs <= 0 ? null : round((100 * usedMs) / elapsedMs),
      rssBytes: sum([process.memoryUsage.rss(), ...engines.map((engine) => engine.rssBytes)]),
      memoryAvailableBytes: availableMemoryBytes(),
    };
  }
}

/** Memory available to new work without swapping. macOS has no such figure: its free pages say little. */
export function availableMemoryBytes(): number | null {
  return process.platform === 'darwin' ? null : freemem();
}

export function totalMemoryBytes(): number {
  return totalmem();
}

/** Free bytes for this user on the file system of `directory`. null: not reported. */
export async function freeDiskBytes(directory: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    return null;
  }
}

function sum(values: readonly (number | null)[]): number | null {
  let total = 0;
  for (const value of values) {
    if (value === null) return null;
    total += value;
  }
  return total;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
