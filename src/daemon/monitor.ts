/**
 * What the daemon looks at by itself, again and again: the resources of the last seconds, the
 * conditions of the machine, and its own socket and file. Cheap enough to go on when nobody asks.
 */
import { lstat } from 'node:fs/promises';
import { whyOf } from '../files/why.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Checks } from './checks.ts';
import type { ConditionWriter } from './conditions.ts';
import type { OwnDaemonFile } from './daemon-file.ts';
import { inBackground } from './in-background.ts';
import { ResourceMeter, type EngineProcess, type Resources } from './resources.ts';

const SAMPLE_MS = 2_000;
/** Readiness turns within a second of its cause. */
const CHECK_MS = 500;
const TOUCH_MS = 10_000;
/** Checks that take longer wait for a file system that does not answer. */
const STANDSTILL_MS = 1_000;

export interface MonitorOptions {
  readonly log: Logger;
  readonly checks: Checks;
  readonly listeners: ConditionWriter;
  readonly socketPath: string;
  /** Binds the control socket anew, after its file was removed. */
  rebind(): Promise<void>;
  engines(): readonly EngineProcess[];
  /** Told after every sample. */
  onSample(): void;
}

export class Monitor {
  readonly #options: MonitorOptions;
  readonly #meter = new ResourceMeter();
  readonly #timers: NodeJS.Timeout[] = [];
  #isStopped = false;
  #resources: Resources = {
    sampledAt: new Date().toISOString(),
    cpuPercent: null,
    rssBytes: null,
    memoryAvailableBytes: null,
  };
  /** When the checks under way began, by the monotonic clock; null: none are. */
  #checkingSince: number | null = null;
  #touching = false;
  /** Of the control socket's file. */
  #inode: number | null = null;

  constructor(options: MonitorOptions) {
    this.#options = options;
  }

  get resources(): Resources {
    return this.#resources;
  }

  /**
   * `addresses` is what the condition says while all is well. Resolves when everything has been
   * looked at once. REQUIRES: the listeners are bound.
   */
  async start(file: OwnDaemonFile, addresses: string): Promise<void> {
    const { log, socketPath } = this.#options;
    this.#inode = await inodeOf(socketPath).catch(() => null);
    // Stopped meanwhile: timers that nothing clears would keep the process.
    if (this.#isStopped) return;
    const check = (): Promise<void> => this.#check(addresses);
    this.#timers.push(
      setInterval(() => inBackground(log, 'a sign of life', this.#touch(file)), TOUCH_MS),
      setInterval(() => this.sample(), SAMPLE_MS),
      setInterval(() => inBackground(log, 'a check', check()), CHECK_MS),
    );
    this.sample();
    await check();
  }

  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  sample(): void {
    this.#resources = this.#meter.sample(this.#options.engines());
    this.#options.onSample();
  }

  /** A file system that does not answer must not gather checks, nor signs of life. */
  async #check(addresses: string): Promise<void> {
    if (this.#checkingSince !== null) {
      if (performance.now() - this.#checkingSince >= STANDSTILL_MS) this.#options.checks.standStill();
      return;
    }
    this.#checkingSince = performance.now();
    try {
      await Promise.all([this.#checkSocket(addresses), this.#options.checks.run()]);
    } finally {
      this.#checkingSince = null;
    }
  }

  async #touch(file: OwnDaemonFile): Promise<void> {
    if (this.#touching) return;
    this.#touching = true;
    try {
      await file.touch();
    } finally {
      this.#touching = false;
    }
  }

  async #checkSocket(addresses: string): Promise<void> {
    const { listeners, socketPath } = this.#options;
    let found: number | null;
    try {
      found = await inodeOf(socketPath);
    } catch (error) {
      listeners('warn', `the control socket ${socketPath} cannot be reached: ${whyOf(error)}`);
      return;
    }
    // A socket that was gone before the first look is gone all the same.
    const hasNone = found === null && process.platform !== 'win32';
    if (found === this.#inode && !hasNone) {
      listeners('ok', addresses);
      return;
    }
    if (found !== null) {
      listeners('warn', `somebody put another file in the place of the control socket ${socketPath}`);
      return;
    }
    listeners('warn', `somebody removed the control socket ${socketPath}`);
    try {
      await this.#options.rebind();
      this.#inode = await inodeOf(socketPath);
      listeners('ok', addresses);
    } catch (error) {
      listeners('warn', `somebody removed the control socket, and ${SvcError.from(error).message}`);
    }
  }
}

/** null: there is no file, or the socket is none (a named pipe). Rejects when the file system does not tell. */
async function inodeOf(path: string): Promise<number | null> {
  if (process.platform === 'win32') return null;
  try {
    return (await lstat(path)).ino;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
