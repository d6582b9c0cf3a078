/** What the daemon and its engines use of this machine, and what is left of it. Unknown is null. */
import { readFile, statfs } from 'node:fs/promises';
import { freemem, totalmem } from 'node:os';

/** An engine process as its supervisor knows it. */
export interface EngineProcess {
  readonly pid: number;
  readonly rssBytes: number | null;
}

export interface Resources {
  readonly sampledAt: string;
  /** Of one core, since the sample before. null: this is the first, or the system doesn't tell. */
  readonly cpuPercent: number | null;
  readonly rssBytes: number | null;
  readonly memoryAvailableBytes: number | null;
}

/** Linux counts processor time in these, on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100;

/** Samples of the daemon and its engines together; each tells of the time since the one before. */
export class ResourceMeter {
  #at = performance.now();
  #own = process.cpuUsage();
  #ticks: ReadonlyMap<number, number> | null = null;

  async sample(engines: readonly EngineProcess[]): Promise<Resources> {
    const ticks = await readTicks(engines);
    const now = performance.now();
    const used = process.cpuUsage(this.#own);
    const before = this.#ticks;
    let seconds: number | null = null;
    if (ticks !== null && before !== null) {
      seconds = (used.user + used.system) / 1e6;
      // An engine that was not there before has used all its time since.
      for (const [pid, count] of ticks) seconds += Math.max(0, count - (before.get(pid) ?? 0)) / TICKS_PER_SECOND;
    }
    const elapsed = (now - this.#at) / 1000;
    this.#at = now;
    this.#own = process.cpuUsage();
    this.#ticks = ticks;
    return {
      sampledAt: new Date().toISOString(),
      cpuPercent: seconds === null || elapsed <= 0 ? null : round((100 * seconds) / elapsed),
      rssBytes: sum([process.memoryUsage.rss(), ...engines.map((engine) => engine.rssBytes)]),
      memoryAvailableBytes: availableMemoryBytes(),
    };
  }
}

/** Processor time by pid. null: this system does not tell that of another process. */
async function readTicks(engines: readonly EngineProcess[]): Promise<ReadonlyMap<number, number> | null> {
  if (engines.length > 0 && process.platform !== 'linux') return null;
  const ticks = new Map<number, number>();
  for (const { pid } of engines) {
    try {
      const stat = await readFile(`/proc/${String(pid)}/stat`, 'utf8');
      // The name in parentheses may hold anything; utime and stime are the 12th and 13th field after it.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      ticks.set(pid, Number(fields[11]) + Number(fields[12]));
    } catch {
      // It has just ended.
    }
  }
  return ticks;
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
