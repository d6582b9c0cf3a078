/**
 * The engines of this daemon: one per model file and load settings, however many names it has (engine-model.ts).
 * Counts each engine's leases and unloads it after its keep-alive. An engine with leases is never unloaded here.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LONGEST_TIMER_MS } from '../../protocol/limits.ts';
import type { ModelLoad } from '../../protocol/records.ts';
import { deferred, type Deferred } from './deferred.ts';
import type { EngineModel } from './engine-model.ts';
import type { Supervisor } from './supervisor.ts';

interface Entry {
  readonly engine: Supervisor;
  readonly model: EngineModel;
  /** Ids that it was acquired by. */
  readonly names: Set<string>;
  /**
   * Set once no model has this engine's files and settings any more: the engine ends with its last lease. Resolves when
   * it has ended, or on `restore` and `unload`.
   */
  retiring: Deferred | null;
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
  create(model: EngineModel): Supervisor;
  /** A model was requested whose files or settings are not those of the engine that it had. */
  onMoved(): void;
  /** A lease ended or a model was unloaded: an engine may have become idle. */
  onChange(): void;
}

export class Pool {
  readonly #options: PoolOptions;
  /** By key (engine-model.ts). */
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

  /** False for an engine that retires: its memory is for its successor. */
  isPinned(engine: Supervisor): boolean {
    return this.#entryOf(engine)?.pinned === true && !this.isRetiring(engine);
  }

  /** True if no model has the engine's files and settings any more. */
  isRetiring(engine: Supervisor): boolean {
    return (this.#entryOf(engine)?.retiring ?? null) !== null;
  }

  /** How long the engine stays after a use; Infinity: until it is unloaded or evicted. */
  keepAliveMs(engine: Supervisor): number {
    return this.#entryOf(engine)?.keepAliveMs ?? this.#options.keepAliveMs;
  }

  /** Time since the last use; 0 while in use. */
  idleMs(engine: Supervisor): number {
    const entry = this.#entryOf(engine);
    return entry === undefined || entry.uses > 0 ? 0 : performance.now() - entry.idleSince;
  }

  /** The load after which its model would stay as long as now. */
  loadOf(engine: Supervisor): ModelLoad {
    const { id: model } = engine.model;
    if (!engine.kept) return { model, briefly: true };
    const keepAliveMs = this.keepAliveMs(engine);
    const keep_alive_seconds = keepAliveMs === Infinity ? -1 : keepAliveMs / 1000;
    return { model, keep_alive_seconds, pin: this.#entryOf(engine)?.pinned ?? false };
  }

  /** Splits an engine's uses into active (admitted, by the last heartbeat) and waiting. */
  queueOf(engine: Supervisor): { waiting: number; active: number } {
    const uses = this.uses(engine);
    const active = Math.min(uses, engine.child?.stats?.active ?? 0);
    return { waiting: uses - active, active };
  }

  /** RFC 3339; null: no expiry. */
  expiresAt(engine: Supervisor): string | null {
    const at = this.#entryOf(engine)?.expiresAt ?? null;
    return at === null ? null : new Date(at).toISOString();
  }

  /** Returns the engine with this key. undefined: none. */
  engine(key: string): Supervisor | undefined {
    return this.#entries.get(key)?.engine;
  }

  /** The model of `engine`; undefined: it is gone. */
  modelOf(engine: Supervisor): EngineModel | undefined {
    return this.#entryOf(engine)?.model;
  }

  /** Ids of the models that use `engine`. */
  names(engine: Supervisor): string[] {
    return [...(this.#entryOf(engine)?.names ?? [])];
  }

  /** Keys of the engines that the model with this id uses, also of those that have its former files or settings. */
  keysOf(name: string): string[] {
    return [...this.#entries.values()].filter(({ names }) => names.has(name)).map(({ model }) => model.key);
  }

  /**
   * Throws BUSY if the engine has its maximum of leases. `name`: id of the model that is requested; `share`: see
   * protocol/caller.ts.
   */
  acquire(model: EngineModel, name: string, share: string): Lease {
    const entry = this.#entries.get(model.key) ?? this.#newEntry(model);
    if (this.#isFull(entry, share)) {
      throw new SvcError('BUSY', `${String(entry.uses)} requests wait for ${model.id} or run`, {
        hint: 'try again later, or raise engine.queue_limit',
        retryAfterSeconds: 1,
      });
    }
    this.#entries.set(model.key, entry);
    entry.names.add(name);
    entry.uses++;
    entry.shares.set(share, (entry.shares.get(share) ?? 0) + 1);
    this.#disarm(entry);
    const hasMoved = (other: Entry): boolean => other !== entry && other.retiring === null && other.names.has(name);
    if ([...this.#entries.values()].some(hasMoved)) this.#options.onMoved();
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
        if (entry.uses === 0 && entry.retiring !== null) void this.#end(entry);
        else if (entry.uses === 0) this.#arm(entry, stayMs);
        this.#forget(entry);
        if (this.#isIdle()) for (const resolve of this.#idleListeners.splice(0)) resolve();
        this.#options.onChange();
      },
    };
  }

  /** Call when `engine` was loaded: if it was restarted without a request, its keep-alive begins. */
  loaded(engine: Supervisor): void {
    const entry = this.#entryOf(engine);
    if (entry?.uses === 0 && entry.expiresAt === null) this.#arm(entry, entry.keepAliveMs);
  }

  /**
   * Ends the engines with these keys, as far as there are any. If one of them is in use, throws BUSY and ends none or,
   * with `whenIdle`, ends those that are not: the others end after their last use, unless a request has set a longer
   * time.
   */
  async unload(keys: readonly string[], whenIdle: boolean): Promise<void> {
    const entries = [...new Set(keys)].flatMap((key) => this.#entries.get(key) ?? []);
    const [busy] = entries.filter(({ uses }) => uses > 0);
    if (busy !== undefined && !whenIdle) throw inUse(busy);
    const idle = entries.filter(({ uses }) => uses === 0);
    for (const entry of entries) {
      entry.keepAliveMs = 0;
      entry.pinned = false;
      if (entry.retiring === null) continue;
      // It still ends, but its model is not loaded again after that.
      entry.retiring.resolve();
      entry.retiring = deferred();
    }
    await Promise.all(idle.map((entry) => this.#end(entry)));
  }

  /**
   * Unloads the engine once it has no lease: no model has its files and settings any more. Resolves with true when its
   * process is gone, with false if `restore` or `unload` was called before.
   */
  async retire(engine: Supervisor): Promise<boolean> {
    const entry = this.#entryOf(engine);
    if (entry === undefined) return false;
    const retiring = (entry.retiring ??= deferred());
    if (entry.uses === 0) void this.#end(entry);
    await retiring.promise;
    return entry.retiring === retiring;
  }

  /** Takes `retire` back: a model has the engine's files and settings again. `moved`: ids of those that have not. */
  restore(engine: Supervisor, moved: readonly string[]): void {
    const entry = this.#entryOf(engine);
    entry?.retiring?.resolve();
    if (entry !== undefined) entry.retiring = null;
    for (const name of moved) entry?.names.delete(name);
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

  /** Ends all requests with `error`, then all engines in order. Resolves when every process is gone. */
  async interrupt(error: SvcError): Promise<void> {
    for (const entry of this.#entries.values()) this.#disarm(entry);
    await Promise.all(this.engines.map((engine) => engine.interrupt(error)));
  }

  /** Kills all engines at once. Resolves when every process is gone. */
  async destroy(error: SvcError): Promise<void> {
    for (const entry of this.#entries.values()) this.#disarm(entry);
    await Promise.all(this.engines.map((engine) => engine.destroy(error)));
  }

  #newEntry(model: EngineModel): Entry {
    return {
      engine: this.#options.create(model),
      model,
      names: new Set(),
      retiring: null,
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
    return [...this.#entries.values()].find((entry) => entry.engine === engine);
  }

  /** Resolves when the process is gone. REQUIRES: the entry has no lease. */
  async #end(entry: Entry): Promise<void> {
    this.#disarm(entry);
    entry.pinned = false;
    entry.keepAliveMs = this.#options.keepAliveMs;
    await entry.engine.unload();
    this.#forget(entry);
    entry.retiring?.resolve();
    this.#options.onChange();
  }

  #arm(entry: Entry, keepAliveMs: number): void {
    const { engine, pinned } = entry;
    // A keep-alive that is longer than a timer means forever.
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
  #forget({ engine, model, uses }: Entry): void {
    if (uses === 0 && engine.state === 'idle' && engine.pids.length === 0) this.#entries.delete(model.key);
  }

  #isIdle(): boolean {
    return [...this.#entries.values()].every(({ uses }) => uses === 0);
  }
}

function inUse({ engine, uses }: Entry): SvcError {
  const requests = uses === 1 ? '1 request' : `${String(uses)} requests`;
  return new SvcError('BUSY', `${engine.model.id} is in use by ${requests}`, {
    hint: 'try again when they have finished',
    retryAfterSeconds: 1,
  });
}
