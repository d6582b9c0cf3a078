/**
 * The engines of this daemon: one per model file, however many names it has. Counts each engine's leases and unloads
 * it after its keep-alive. An engine with leases is never unloaded here.
 */
import { SvcError } from '../../protocol/errors.ts';
import type { Supervisor } from './supervisor.ts';

/** The model of an engine. */
export type Model = Supervisor['model'];

interface Entry {
  readonly engine: Supervisor;
  uses: number;
  /** Uses by share (protocol/caller.ts). */
  readonly shares: Map<string, number>;
  keepAliveMs: number;
  pinned: boolean;
  /** performance.now() when the last use ended. */
  idleSince: number;
  expiry: NodeJS.Timeout | undefined;
  /** Date.now() when it will be unloaded; null: it is in use, or stays. */
  expiresAt: number | null;
}

export interface Lease {
  readonly engine: Supervisor;
  /** Sets how long the model stays after a use. Infinity: until unloaded or evicted for memory. */
  keepAlive(milliseconds: number): void;
  /** Protects the model from eviction until it is unloaded. */
  pin(): void;
  /**
   * Call once. `keepAliveMs`: how long the model stays if this use was the last. Unless `mayShorten`, at least the
   * model's own keep-alive applies.
   */
  release(keepAliveMs?: number, mayShorten?: boolean): void;
}

export interface PoolOptions {
  /** Maximum leases per engine. Beyond it, a lease is granted only to a share below its fair part. */
  readonly usesLimit: number;
  /** Default keep-alive of a model. */
  readonly keepAliveMs: number;
  create(model: Model): Supervisor;
  /** A lease ended or a model was unloaded: an engine may have become idle. */
  onChange(): void;
}

/** Maximum delay of a Node timer: 24 days. A longer keep-alive means forever. */
const LONGEST_TIMER_MS = 0x7fff_ffff;

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

  /** Number of leases of `engine`. */
  uses(engine: Supervisor): number {
    return this.#entryOf(engine)?.uses ?? 0;
  }

  isPinned(engine: Supervisor): boolean {
    return this.#entryOf(engine)?.pinned ?? false;
  }

  /** Time since the last use; 0 while in use. */
  idleMs(engine: Supervisor): number {
    const entry = this.#entryOf(engine);
    return entry === undefined || entry.uses > 0 ? 0 : performance.now() - entry.idleSince;
  }

  /** RFC 3339; null: no expiry. */
  expiresAt(engine: Supervisor): string | null {
    const at = this.#entryOf(engine)?.expiresAt ?? null;
    return at === null ? null : new Date(at).toISOString();
  }

  /** Throws BUSY if the engine has its maximum of leases. `share`: see protocol/caller.ts. */
  acquire(model: Model, share: string): Lease {
    const entry = this.#entries.get(model.path) ?? this.#newEntry(model);
    if (this.#isFull(entry, share)) {
      throw new SvcError('BUSY', `${String(entry.uses)} requests wait for ${model.id} or run`, {
        hint: 'try again later, or raise engine.queue_limit',
        retryAfterSeconds: 1,
      });
    }
    this.#entries.set(model.path, entry);
    entry.uses++;
    entry.shares.set(share, (entry.shares.get(share) ?? 0) + 1);
    this.#disarm(entry);
    return {
      engine: entry.engine,
      keepAlive: (milliseconds) => {
        entry.keepAliveMs = milliseconds;
      },
      pin: () => {
        entry.pinned = true;
      },
      release: (keepAliveMs = entry.keepAliveMs, mayShorten = true) => {
        const stayMs = mayShorten ? keepAliveMs : Math.max(keepAliveMs, entry.keepAliveMs);
        entry.uses--;
        const left = (entry.shares.get(share) ?? 1) - 1;
        if (left > 0) entry.shares.set(share, left);
        else entry.shares.delete(share);
        entry.idleSince = performance.now();
        if (entry.uses === 0) this.#arm(entry, stayMs);
        this.#forget(entry);
        if (this.#isIdle()) for (const resolve of this.#idleListeners.splice(0)) resolve();
        this.#options.onChange();
      },
    };
  }

  /** Throws BUSY while the model is in use. Does nothing if it is not loaded. */
  async unload(path: string): Promise<void> {
    const entry = this.#entries.get(path);
    if (entry === undefined) return;
    if (entry.uses > 0) {
      throw new SvcError('BUSY', `${entry.engine.model.id} is used by ${String(entry.uses)} requests`, {
        hint: 'try again when they have finished',
        retryAfterSeconds: 1,
      });
    }
    this.#disarm(entry);
    entry.pinned = false;
    entry.keepAliveMs = this.#options.keepAliveMs;
    await entry.engine.unload();
    this.#forget(entry);
    this.#options.onChange();
  }

  /** Resolves once no engine has a lease. */
  async idle(): Promise<void> {
    if (this.#isIdle()) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  /** Resolves when every process is gone. REQUIRES: idle. */
  async close(): Promise<void> {
    for (const entry of this.#entries.values()) this.#disarm(entry);
    await Promise.all(this.engines.map((engine) => engine.close()));
  }

  /** Kills all engines at once. Resolves when every process is gone. */
  async destroy(error: SvcError): Promise<void> {
    for (const entry of this.#entries.values()) this.#disarm(entry);
    await Promise.all(this.engines.map((engine) => engine.destroy(error)));
  }

  #newEntry(model: Model): Entry {
    return {
      engine: this.#options.create(model),
      uses: 0,
      shares: new Map(),
      keepAliveMs: this.#options.keepAliveMs,
      pinned: false,
      idleSince: performance.now(),
      expiry: undefined,
      expiresAt: null,
    };
  }

  /** One share may use the whole limit; other shares still get their fair part, up to twice the limit in total. */
  #isFull({ uses, shares }: Entry, share: string): boolean {
    const { usesLimit } = this.#options;
    if (uses < usesLimit) return false;
    const own = shares.get(share) ?? 0;
    const part = usesLimit / (shares.size + (own === 0 ? 1 : 0));
    return own + 1 > part || uses >= 2 * usesLimit;
  }

  #entryOf(engine: Supervisor): Entry | undefined {
    return this.#entries.get(engine.model.path);
  }

  #arm(entry: Entry, keepAliveMs: number): void {
    const { engine, pinned } = entry;
    if (pinned || engine.state !== 'loaded' || keepAliveMs > LONGEST_TIMER_MS) return;
    entry.expiresAt = Date.now() + keepAliveMs;
    entry.expiry = setTimeout(() => {
      entry.expiresAt = null;
      // Still unused: `acquire` clears this timer.
      void engine.unload().then(() => {
        this.#forget(entry);
        this.#options.onChange();
      });
    }, keepAliveMs).unref();
  }

  #disarm(entry: Entry): void {
    clearTimeout(entry.expiry);
    entry.expiresAt = null;
  }

  /** Removes the entry, unless it has a lease, a process that is not gone yet, or a failure to remember. */
  #forget({ engine, uses }: Entry): void {
    if (uses === 0 && engine.state === 'idle' && engine.pids.length === 0) this.#entries.delete(engine.model.path);
  }

  #isIdle(): boolean {
    return [...this.#entries.values()].every(({ uses }) => uses === 0);
  }
}
