/**
 * Periodic checks of the daemon: resource usage of the last seconds, the conditions of the machine, and its own
 * control socket and daemon.json. Cheap enough to run all the time.
 */
import { lstat } from 'node:fs/promises';
import { ifMissing } from '../files/missing.ts';
import { StallTimer } from '../files/stall-timer.ts';
import { whyOf } from '../files/why.ts';
import type { Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Checks } from './checks.ts';
import type { ConditionWriter } from './conditions.ts';
import type { OwnDaemonFile } from './daemon-file.ts';
import { inBackground } from './in-background.ts';
import { ResourceMeter, type EngineProcess, type Resources } from './resources.ts';

const SAMPLE_MS = 2_000;
/** Readiness changes within a second of its cause. */
const CHECK_MS = 500;
const TOUCH_MS = 10_000;

export interface MonitorOptions {
  readonly log: Logger;
  readonly checks: Checks;
  readonly listeners: ConditionWriter;
  readonly socketPath: string;
  /** Binds the control socket again, after its file was removed. */
  rebind(): Promise<void>;
  engines(): readonly EngineProcess[];
  /** Called after every sample. */
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
  #checking = false;
  /** Runs while the checks do. */
  readonly #stall = new StallTimer();
  #touching = false;
  /** Inode of the control socket's file. */
  #inode: number | null = null;

  constructor(options: MonitorOptions) {
    this.#options = options;
  }

  get resources(): Resources {
    return this.#resources;
  }

  /**
   * Starts the timers. `addresses` is the reason of the condition `listeners` while it is `ok`. Resolves when
   * everything has been checked once. REQUIRES: the listeners are bound.
   */
  async start(file: OwnDaemonFile, addresses: string): Promise<void> {
    const { log, socketPath } = this.#options;
    this.#inode = await inodeOf(socketPath).catch(() => null);
    // Stopped meanwhile: timers set now would never be cleared and keep the process alive.
    if (this.#isStopped) return;
    const check = (): Promise<void> => this.#check(addresses);
    this.#timers.push(
      setInterval(() => inBackground(log, 'updating daemon.json', this.#touch(file)), TOUCH_MS),
      setInterval(() => this.sample(), SAMPLE_MS),
      setInterval(() => inBackground(log, 'checking the conditions', check()), CHECK_MS),
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

  /** Runs the checks, unless they still run: they must not pile up while a file system does not respond. */
  async #check(addresses: string): Promise<void> {
    if (this.#checking) {
      if (this.#stall.isStalled) this.#options.checks.standStill();
      return;
    }
    this.#checking = true;
    this.#stall.restart();
    try {
      await Promise.all([this.#checkSocket(addresses), this.#options.checks.run()]);
    } finally {
      this.#checking = false;
      this.#stall.stop();
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
    // A socket that was removed before `start` read its inode counts as removed, too.
    const hasNone = found === null && process.platform !== 'win32';
    if (found === this.#inode && !hasNone) {
      listeners('ok', addresses);
      return;
    }
    if (found !== null) {
      listeners('warn', `another file replaced the control socket ${socketPath}: remove it, and svc binds it again`);
      return;
    }
    listeners('warn', `the control socket ${socketPath} was removed`);
    try {
      await this.#options.rebind();
      this.#inode = await inodeOf(socketPath);
      listeners('ok', addresses);
    } catch (error) {
      listeners('warn', `the control socket was removed: ${SvcError.from(error).message}`);
    }
  }
}

/** Returns null when there is no file, as for a named pipe. Rejects with any other error of the file system. */
async function inodeOf(path: string): Promise<number | null> {
  if (process.platform === 'win32') return null;
  return await lstat(path).then(({ ino }) => ino, ifMissing(null));
}
