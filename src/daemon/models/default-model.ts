/** Loads the default model when the daemon starts. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { LoadEvent } from '../../protocol/routes.ts';
import { inBackground } from '../in-background.ts';

export interface DefaultModelOptions {
  /** The default model. Throws, if there is none. */
  find(): Promise<ModelRecord>;
  load(model: string, signal: AbortSignal): AsyncIterable<LoadEvent>;
  /** Called after each attempt. */
  onAttempt(): void;
  readonly log: Logger;
  /** Aborted when the daemon ends. */
  readonly signal: AbortSignal;
}

/** Time until the next attempt: it doubles from the first value to the second. */
const RETRY_FIRST_MS = 5_000;
const RETRY_MOST_MS = 60_000;

export class DefaultModel {
  readonly #options: DefaultModelOptions;
  #retryMs = 0;
  #failure: SvcError | null = null;

  constructor(options: DefaultModelOptions) {
    this.#options = options;
  }

  /** Error of the last attempt to load; null if it succeeded or none was made. */
  get failure(): SvcError | null {
    return this.#failure;
  }

  /**
   * Loads the model; while that fails, retries in the background. Resolves after the first attempt. Once loaded, its
   * supervisor keeps it loaded.
   */
  async load(): Promise<void> {
    const { log, signal } = this.#options;
    try {
      const model = await this.#options.find();
      for await (const event of this.#options.load(model.id, signal)) {
        if (event.type === 'loaded') log.info({ model: event.model, pid: event.pid }, 'default model loaded');
      }
      this.#failure = null;
    } catch (error) {
      if (signal.aborted) return;
      this.#failure = SvcError.from(error);
      log.warn({ err: error }, 'the default model cannot be loaded');
      inBackground(log, 'loading the default model again', this.#retryLater());
    }
    this.#options.onAttempt();
  }

  async #retryLater(): Promise<void> {
    const { signal } = this.#options;
    this.#retryMs = Math.min(RETRY_MOST_MS, Math.max(RETRY_FIRST_MS, this.#retryMs * 2));
    await sleep(this.#retryMs, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) await this.load();
  }
}
