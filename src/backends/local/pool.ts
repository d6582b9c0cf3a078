/**
 * The engines of this daemon: one for each model file, whatever names lead to it, with the number of
 * its users, and how long it stays when it has none. Nothing is unloaded under a user.
 */
import { SvcError } from '../../protocol/errors.ts';
import type { Supervisor } from './supervisor.ts';

/** What an engine is made from. */
export type Model = Supervisor['model'];

interface Entry {
  readonly engine: Supervisor;
  uses: number;
  /** Of these, by share (protocol/caller.ts). */
  readonly shares: Map<string, number>;
  keepAliveMs: number;
  pinned: boolean;
  /** performance.now() of its last use's end. */
  idleSince: number;
  expiry: NodeJS.Timeout | undefined;
  /** Date.now() when it is to go; null: it is in use, or stays. */
  expiresAt: number | null;
}

export interface Lease {
  readonly engine: Supervisor;
  /** From now on the model stays so long after a use. Infinity: until somebody unloads it, or its memory is needed. */
  keepAlive(milliseconds: number): void;
  /** From now on it stays, whoever needs its memory; until it is unloaded. */
  pin(): void;
  /**
   * Call it once. `keepAliveMs`: how long it stays after this use, if it was the last. Unless the user `mayShorten` what
   * was said of the model, it stays no shorter than that.
   */
  release(keepAliveMs?: number, mayShorten?: boolean): void;
}

export interface PoolOptions {
  /** Users that one engine may have; one more is refused, unless its share has less than its part of these. */
  readonly usesLimit: number;
  /** Until somebody says otherwise of a model. */
  readonly keepAliveMs: number;
  create(model: Model): Supervisor;
  /** Users came, went or were told how long theirs stays: what was busy may be idle. */
  onChange(): void;
}

/** Timers take no more: 24 days. What stays longer, stays. */
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

  /** Leases of `engine` that are out. */
  uses(engine: Supervisor): number {
    return this.#entryOf(engine)?.uses ?? 0;
  }

  isPinned(engine: Supervisor): boolean {
    return this.#entryOf(engine)?.pinned ?? false;
  }

  /** For how long nobody has used it; 0: somebody does. */
  idleMs(engine: Supervisor): number {
    const entry = this.#entryOf(engine);
    return entry === undefined || entry.uses > 0 ? 0 : performance.now() - entry.idleSince;
  }

  /** RFC 3339; null: it stays. */
  expiresAt(engine: Supervisor): string | null {
    const at = this.#entryOf(engine)?.expiresAt ?? null;
    return at === null ? null : new Date(at).toISOString();
  }

  /** Throws BUSY when the engine has all the users it may have. `share`: who asks (protocol/caller.ts). */
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
    this.#disarm(entry);
    entry.pinned = false;
    entry.keepAliveMs = this.#options.keepAliveMs;
    await entry.engine.unload();
    this.#forget(entry);
    this.#options.onChange();
  }

  /** Resolves once nobody uses any engine. */
  async idle(): Promise<void> {
    if (this.#isIdle()) return;
    await new Promise<void>((resolve) => this.#idleListeners.push(resolve));
  }

  /** Resolves when every process is gone. REQUIRES: idle. */
  async close(): Promise<void> {
    for (const entry of this.#entries.values()) this.#disarm(entry);
    await Promise.all(this.engines.map((engine) => engine.close()));
  }

  /** Now. Resolves when every process is gone. */
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

  /** One share may take every place, yet another one then still finds its part, up to twice the limit for all. */
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
      // Nobody came: whoever does disarms it.
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

  /** Unless there is something to remember: a use, a process that is not gone yet, a failure. */
  #forget({ engine, uses }: Entry): void {
    if (uses === 0 && engine.state === 'idle' && engine.pids.length === 0) this.#entries.delete(engine.model.path);
  }

  #isIdle(): boolean {
    return [...this.#entries.values()].every(({ uses }) => uses === 0);
  }
}
