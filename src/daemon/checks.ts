/** The conditions that are checked periodically: disk, files, memory, the model store, the providers, the API keys. */
import { stat } from 'node:fs/promises';
import type { Paths } from '../home/paths.ts';
import { placesOfConfig, troublesOf, type StoragePaths } from '../home/storage.ts';
import { SvcError } from '../protocol/errors.ts';
import type { CheckStatus, ModelRecord } from '../protocol/records.ts';
import type { Conditions, ConditionWriter } from './conditions.ts';
import { availableMemoryBytes, freeDiskBytes, totalMemoryBytes } from './resources.ts';

const MIB = 1024 * 1024;

/** Free bytes below which a condition is `warn`, and below which work fails. */
export interface Threshold {
  readonly warnBytes: number;
  readonly failBytes: number;
}

/** Room for the log, the state and a package manager at work. */
const DISK: Threshold = { warnBytes: 1024 * MIB, failBytes: 64 * MIB };
/** Lower on machines with little memory. */
const memoryThreshold = (totalBytes: number): Threshold => ({
  warnBytes: Math.min(512 * MIB, totalBytes / 10),
  failBytes: Math.min(96 * MIB, totalBytes / 50),
});
/** A status improves only when the figure is past the bound by this factor, so that it does not flap. */
const HYSTERESIS = 1.1;

/** Returns the status for `bytes` left, given the status before. */
export function judgeBytes(bytes: number, threshold: Threshold, before: CheckStatus): CheckStatus {
  const fail = threshold.failBytes * (before === 'fail' ? HYSTERESIS : 1);
  const warn = threshold.warnBytes * (before === 'ok' ? 1 : HYSTERESIS);
  return bytes < fail ? 'fail' : bytes < warn ? 'warn' : 'ok';
}

export interface Store {
  list(): Promise<readonly ModelRecord[]>;
  find(name?: string): Promise<ModelRecord>;
}

export interface ChecksOptions {
  readonly conditions: Conditions;
  readonly store: Store;
  readonly paths: StoragePaths & Pick<Paths, 'configFile'>;
  readonly modelsDir: string;
  /** Errors of the log, the ledger and daemon.json that only writing them shows. */
  fileTroubles(): readonly string[];
  /** Returns the condition `providers`. */
  providers(): { readonly status: CheckStatus; readonly reason: string };
  /** Resolves with the reason of the condition `version`, which is always `ok`. Never rejects. */
  version(): Promise<string>;
  /** Resolves with the condition `api_keys`. Never rejects. */
  apiKeys(): Promise<{ readonly status: CheckStatus; readonly reason: string }>;
}

/** The conditions that these checks write. */
const CHECKED = ['disk_space', 'memory', 'storage', 'model_store', 'providers', 'api_keys', 'version'] as const;

export class Checks {
  readonly #options: ChecksOptions;
  readonly #write: Readonly<Record<(typeof CHECKED)[number], ConditionWriter>>;
  /** True once the store's directory existed: svc creates it with the first model and never removes it. */
  #hadStore = false;

  constructor(options: ChecksOptions) {
    this.#options = options;
    const writers = CHECKED.map((name) => [name, options.conditions.writer(name)]);
    this.#write = Object.fromEntries(writers) as Record<(typeof CHECKED)[number], ConditionWriter>;
  }

  /** Never rejects. */
  async run(): Promise<void> {
    this.#checkMemory();
    const { status, reason } = this.#options.providers();
    this.#write.providers(status, reason);
    await Promise.all([
      this.#checkDisk(),
      this.#checkStorage(),
      this.#checkStore(),
      this.#checkApiKeys(),
      this.#checkVersion(),
    ]);
  }

  /** Another version beside the running one is not a problem, only news. */
  async #checkVersion(): Promise<void> {
    this.#write.version('ok', await this.#options.version());
  }

  async #checkApiKeys(): Promise<void> {
    const { status, reason } = await this.#options.apiKeys();
    this.#write.api_keys(status, reason);
  }

  /** Reports that `run` is waiting for a file system that does not respond. */
  standStill(): void {
    this.#write.storage('warn', 'a file system that svc uses has not answered for a second or more');
  }

  async #checkStorage(): Promise<void> {
    const { paths } = this.#options;
    const found = await troublesOf(paths, new Date(), placesOfConfig(paths));
    const troubles = [...found, ...this.#options.fileTroubles()];
    if (troubles.length === 0)
      this.#write.storage('ok', 'state, log, usage ledger, config, provider keys and cache can be used');
    else this.#write.storage('warn', troubles.join('; '));
  }

  #checkMemory(): void {
    const bytes = availableMemoryBytes();
    if (bytes === null) {
      this.#write.memory('ok', 'not measured on this system');
      return;
    }
    this.#judge('memory', bytes, memoryThreshold(totalMemoryBytes()), 'available');
  }

  async #checkDisk(): Promise<void> {
    const { paths, modelsDir } = this.#options;
    const state = await freeDiskBytes(paths.stateDir);
    const models = await freeDiskBytes(modelsDir);
    if (state === null) {
      this.#write.disk_space('ok', 'not measured on this system');
      return;
    }
    const [bytes, what] = models === null || state <= models ? [state, 'state and log'] : [models, 'models'];
    this.#judge('disk_space', bytes, DISK, `free for ${what}`);
  }

  /** While the status is `ok` the reason has no current figure: every change of a reason is sent to watchers. */
  #judge(name: 'disk_space' | 'memory', bytes: number, threshold: Threshold, what: string): void {
    const status = judgeBytes(bytes, threshold, this.#statusOf(name));
    const left = status === 'ok' ? `more than ${inMib(threshold.warnBytes, 4)}` : `about ${inMib(bytes, 2)}`;
    this.#write[name](status, `${left} ${what}`);
  }

  async #checkStore(): Promise<void> {
    const { modelsDir } = this.#options;
    // Only ENOENT counts as removed; the store reports all other errors itself.
    const hasStore = await stat(modelsDir).then(
      () => true,
      (error: unknown) => (error as NodeJS.ErrnoException).code !== 'ENOENT',
    );
    if (this.#hadStore && !hasStore) {
      this.#write.model_store('fail', `${modelsDir} was removed, with the models in it`);
      return;
    }
    this.#hadStore = hasStore;
    try {
      const models = await this.#options.store.list();
      const chosen = await this.#options.store.find();
      const broken = models.filter(({ state }) => state === 'failed').map(({ id }) => id);
      if (broken.length > 0) this.#write.model_store('warn', `models that cannot be loaded: ${broken.join(', ')}`);
      else this.#write.model_store('ok', `${String(models.length)} installed, the default is ${chosen.id}`);
    } catch (error) {
      this.#write.model_store('fail', SvcError.from(error).message);
    }
  }

  /** Status for the hysteresis; `ok` before the first check. */
  #statusOf(name: 'disk_space' | 'memory'): CheckStatus {
    return this.#options.conditions.phase === 'starting' ? 'ok' : this.#options.conditions.get(name).status;
  }
}

/** Formats `bytes` with few digits: enough to act on, and stable between checks. */
function inMib(bytes: number, digits: number): string {
  return `${String(Number((bytes / MIB).toPrecision(digits)))} MiB`;
}
