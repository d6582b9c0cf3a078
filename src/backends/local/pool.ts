/**
 * The engines of this daemon: one for each model file, whatever names lead to it, with the number of
 * its users. What is loaded stays loaded; nothing is unloaded under a user.
 */
import { SvcError } from '../../protocol/errors.ts';
import type { Supervisor } from './supervisor.ts';

/** What an engine is made from. */
export type Model = Supervisor['model'];

interface Entry {
  readonly engine: Supervisor;
  uses: number;
}

export interface Lease {
  readonly engine: Supervisor;
  /** Call it once. */
  release(): void;
}

export interface PoolOptions {
  /** Users that one engine may have; one more is refused. */
  readonly usesLimit: number;
  create(model: Model): Supervisor;
}

export class Pool {
  readonly #options: PoolOptions;
  /** By path. */
  readonly #entries = new Map<string, Entry>();
  #idleListeners: (() => void)[] = [];

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get engines(): Supervisor[] {
    return Array.from(this.#entries.values(), ({ engine }) => engine);
  }

  /** Leases of `engine` that are out. */
  uses(engine: Supervisor): number {
    return this.#entries.get(engine.model.path)?.uses ?? 0;
  }

  /** Throws BUSY when the engine has all the users it may have. */
  acquire(model: Model): Lease {
    const entry = this.#entries.get(model.path) ?? { engine: this.#options.create(model), uses: 0 };
    if (entry.uses >= this.#options.usesLimit) {
      throw new SvcError('BUSY', `${String(entry.uses)} requests wait for ${model.id} or run`, {
        hint: 'try again later, or raise engine.queue_limit',
        retryAfterSeconds: 1,
      });
    }
    this.#entries.set(model.path, entry);
    entry.uses++;
    return {
      engine: entry.engine,
      release: () => {
        entry.uses--;
        this.#forget(entry);
        if (this.#isIdle()) for (const resolve of this.#idleListeners.splice(0)) resolve();
      },
    };
  }

  /** Throws BUSY while the model is used. Not loaded is a success. */
  async unload(path: string): Promise<void> {
    const entry = this.#entries.get(path);
    if (entry === undefined) return;
    if (entry.uses > 0) {
      throw new SvcError('BUSY', `${entry.engine.model.id} is used by ${String(entry.uses)} requests`, {
        hint: 'try again when they have ended',
        retryAfterSeconds: 1,
      });
    }
    await entry.engine.unload();
    this.#forget(entry);
  }

  /** Resolves once nobody uses any engine. */
  async idle(): Promise<void> {
    if (this.#isIdle()) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  /** Resolves when every process is gone. REQUIRES: idle. */
  async close(): Promise<void> {
    await Promise.all(this.engines.map((engine) => engine.close()));
  }

  /** Now. Resolves when every process is gone. */
  async destroy(error: SvcError): Promise<void> {
    await Promise.all(this.engines.map((engine) => engine.destroy(error)));
  }

  /** Unless there is something to remember: a use, a process that is not gone yet, a failure. */
  #forget({ engine, uses }: Entry): void {
    if (uses === 0 && engine.state === 'idle' && engine.pids.length === 0) this.#entries.delete(engine.model.path);
  }

  #isIdle(): boolean {
    return [...this.#entries.values()].every(({ uses }) => uses === 0);
  }
}
