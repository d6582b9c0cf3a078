/** What the daemon and its engines use of this machine, and what is left of it. Unknown is null. */
import { statfs } from 'node:fs/promises';
import { availableParallelism, freemem, totalmem } from 'node:os';

/** An engine process as its supervisor knows it. */
export interface EngineProcess {
  readonly pid: number;
  readonly rssBytes: number | null;
  /** Processor time since it started, by its own account; null before it has told. */
  readonly cpuMs: number | null;
}

export interface Resources {
  readonly sampledAt: string;
  /** Of one core, since the sample before. null: this is the first, or the system doesn't tell. */
  readonly cpuPercent: number | null;
  readonly rssBytes: number | null;
  readonly memoryAvailableBytes: number | null;
}

/** Samples of the daemon and its engines together; each tells of the time since the one before. */
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
    // What an engine says of itself is no more than it can have used. One that was not there before has used all its time since.
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

/** What new work can have without swapping. macOS keeps no such figure: its free pages say little. */
export function availableMemoryBytes(): number | null {
  return process.platform === 'darwin' ? null : freemem();
}

export function totalMemoryBytes(): number {
  return totalmem();
}

/** What this user can still write where `directory` lies. null: the system does not say. */
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
