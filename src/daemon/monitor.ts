/**
 * What the daemon looks at by itself, again and again: the resources of the last seconds, the
 * conditions of the machine, and its own socket and file. Cheap enough to go on when nobody asks.
 */
import { lstatSync } from 'node:fs';
import { SvcError } from '../protocol/errors.ts';
import type { LoadedModelHealth } from '../protocol/records.ts';
import type { Checks } from './checks.ts';
import type { ConditionWriter } from './conditions.ts';
import type { OwnDaemonFile } from './daemon-file.ts';
import { ResourceMeter, type EngineProcess, type Resources } from './resources.ts';

const SAMPLE_MS = 2_000;
/** Readiness turns within a second of its cause. */
const CHECK_MS = 500;
const TOUCH_MS = 10_000;

export interface MonitorOptions {
  readonly checks: Checks;
  readonly listeners: ConditionWriter;
  readonly socketPath: string;
  /** Binds the control socket anew, after its file was removed. */
  rebind(): Promise<void>;
  models(): readonly LoadedModelHealth[];
  /** Told after every sample. */
  onSample(): void;
}

export class Monitor {
  readonly #options: MonitorOptions;
  readonly #meter = new ResourceMeter();
  readonly #timers: NodeJS.Timeout[] = [];
  #resources: Resources = {
    sampledAt: new Date().toISOString(),
    cpuPercent: null,
    rssBytes: null,
    memoryAvailableBytes: null,
  };
  #checking = false;
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
    this.#inode = inodeOf(this.#options.socketPath);
    const check = (): Promise<void> => this.#check(addresses);
    this.#timers.push(
      setInterval(() => file.touch(), TOUCH_MS),
      setInterval(() => void this.sample(), SAMPLE_MS),
      setInterval(() => void check(), CHECK_MS),
    );
    await Promise.all([this.sample(), check()]);
  }

  stop(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  async sample(): Promise<void> {
    const engines = this.#options
      .models()
      .flatMap(({ pid, rss_bytes }): EngineProcess[] => (pid === null ? [] : [{ pid, rssBytes: rss_bytes }]));
    this.#resources = await this.#meter.sample(engines);
    this.#options.onSample();
  }

  async #check(addresses: string): Promise<void> {
    // A file system that does not answer must not gather checks.
    if (this.#checking) return;
    this.#checking = true;
    await Promise.all([this.#checkSocket(addresses), this.#options.checks.run()]);
    this.#checking = false;
  }

  async #checkSocket(addresses: string): Promise<void> {
    const { listeners, socketPath } = this.#options;
    const found = inodeOf(socketPath);
    if (found === this.#inode) {
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
      this.#inode = inodeOf(socketPath);
      listeners('ok', addresses);
    } catch (error) {
      listeners('warn', `somebody removed the control socket, and ${SvcError.from(error).message}`);
    }
  }
}

/** null: there is no file, or the socket is none (a named pipe). */
function inodeOf(path: string): number | null {
  return process.platform === 'win32' ? null : (lstatSync(path, { throwIfNoEntry: false })?.ino ?? null);
}
