/**
 * Supervises one model's engine: starts its process on the first request, fails the generations of a dead process,
 * and restarts it.
 *
 *   idle ──ready()──► loading ──► loaded ──crash──► failed ──(delay)──► loading …
 *
 * Restarts. There is no delay after the first failure; each further one doubles it, up to a minute (backoff.ts), unless
 * one request is known to cause them. A minute without failure resets the count. During a short delay requests wait;
 * during a long one they are refused at once: after crashes with NOT_READY and the time left, after a failed load with
 * the load's own error. An engine that is `kept` (the default model, or one loaded by name) is restarted without a
 * request, unless the error would recur.
 *
 * Contexts. A load gets the longest context that a waiting request asks for. If that does not fit, only the requests
 * that asked for as much are refused; the load is repeated for the others and for a kept engine.
 *
 * A load is cancelled when no request waits for it any more, unless the engine is kept.
 *
 * A process that is being ended is no longer the current engine, so requests do not join it. It is tracked until it is
 * gone, because close and destroy resolve only then.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { CellDemand, EngineInfo, NativeDevice, NativeLoadOptions } from '../../engine/addon.ts';
import type { ToEngine } from '../../engine/messages.ts';
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { abortable } from '../abortable.ts';
import { Culprits, PATIENCE_MS, restartDelayMs } from './backoff.ts';
import { deferred, type Deferred } from './deferred.ts';
import { EngineChild } from './engine-child.ts';
import type { Bytes, Estimate, Plan, Step } from './memory/fit.ts';
import { InFlight, type LoadedEngine } from './in-flight.ts';
import { Suspects } from './suspects.ts';

const STOPPING = new SvcError('NOT_READY', 'svc is stopping');
/** Time without failure that resets the failure count. */
const STABLE_MS = 60_000;

export interface SupervisorOptions {
  /** `context_length`: trained, in tokens; null: unknown. */
  readonly model: Pick<ModelRecord, 'id' | 'path' | 'context_length'>;
  /**
   * Waits for memory, then calls `onPlan` with the load options, synchronously with the check that found the room.
   * Throws OUT_OF_MEMORY.
   */
  plan(engine: Supervisor, estimate: Estimate, signal: AbortSignal, onPlan: (plan: Plan) => void): Promise<void>;
  /** Reserves memory for a larger KV cache and returns its number of cells. Throws OUT_OF_MEMORY. */
  grow(engine: Supervisor, demand: CellDemand): Promise<number>;
  /** The GPU driver's shader cache; absent: none. */
  readonly shaderFolder?: string | undefined;
  readonly stallTimeoutMs: number;
  readonly log: Logger;
  readonly entry?: string | undefined;
  /** The state changed. */
  onChange(): void;
  /** The model was loaded. */
  onLoaded?(info: EngineInfo): void;
  /** The engine reported the devices. */
  onDevices?(devices: readonly NativeDevice[]): void;
  /** For metrics. */
  onCrash?(): void;
  onRestart?(): void;
}

type State =
  | { readonly name: 'idle' }
  | {
      readonly name: 'loading';
      readonly child: EngineChild;
      readonly done: Deferred;
      /** Context that was asked for, in tokens; 0: none, or not planned yet. */
      askedContext: number;
      isPlanned: boolean;
    }
  | { readonly name: 'loaded'; readonly child: EngineChild; readonly info: EngineInfo; readonly since: number }
  | { readonly name: 'failed'; readonly error: SvcError; readonly retryAt: number }
  | { readonly name: 'closed'; readonly error: SvcError };

export class Supervisor {
  readonly model: SupervisorOptions['model'];
  /** Requests that were in an engine process when it died. */
  readonly suspects = new Suspects();
  /** Requests that crash the engine. */
  readonly culprits: Culprits;
  readonly #options: SupervisorOptions;
  #state: State = { name: 'idle' };
  #fraction = 0;
  #failures = 0;
  #kept = false;
  /** Calls of `ready` that are not settled. */
  readonly #waiting = new Set<{ readonly contextLength: number }>();
  /** Plan of the newest process that has one; null: none has. */
  #plan: Plan | null = null;
  /** Longest context that was requested and loaded, in tokens; later loads get at least this. 0: none. */
  #grantedContext = 0;
  #startedAt = 0;
  #loadMs = 0;
  /** Set while `retire` waits for the process to become idle and end. */
  #retiring: Deferred | null = null;
  #restart: NodeJS.Timeout | undefined;
  /** Its requests. REQUIRES: `ready` has resolved. They throw ENGINE_CRASHED if the engine is already gone, or BUSY. */
  readonly requests = new InFlight(
    () => this.child,
    () => this.#loaded(),
  );
  /** Processes that are not gone yet. */
  readonly #children = new Set<EngineChild>();

  constructor(options: SupervisorOptions) {
    this.model = options.model;
    this.culprits = new Culprits(options.model.id);
    this.#options = options;
  }

  get state(): State['name'] {
    return this.#state.name;
  }
  get kept(): boolean {
    return this.#kept;
  }
  /** Consecutive failures. */
  get failures(): number {
    return this.#failures;
  }
  /** Progress of the current load, 0 to 1. */
  get fraction(): number {
    return this.#fraction;
  }
  get info(): EngineInfo | null {
    return this.#state.name === 'loaded' ? this.#state.info : null;
  }
  /** The error if the state is `failed`. */
  get failure(): SvcError | null {
    return this.#state.name === 'failed' ? this.#state.error : null;
  }
  /** The current process; null: none. */
  get child(): EngineChild | null {
    return 'child' in this.#state ? this.#state.child : null;
  }
  get pid(): number | null {
    return this.child?.pid ?? null;
  }
  /** Pids of all processes that are not gone yet. */
  get pids(): number[] {
    return [...this.#children].flatMap(({ pid }) => pid ?? []);
  }

  /** Measured memory. null: not loaded, or not measurable on this system. */
  get held(): Bytes | null {
    const measured = this.#state.name === 'loaded' ? this.#state.child.privateBytes : null;
    if (this.#plan === null || measured === null) return null;
    return { host: measured + this.#plan.mappedBytes, devices: this.#plan.bytes.devices };
  }
  /**
   * Memory to reserve for this engine: max(planned, measured). Planned memory is taken gradually. null: not planned
   * yet.
   */
  get claimed(): Bytes | null {
    if (this.#plan === null) return null;
    const { host, devices } = this.#plan.bytes;
    return { host: Math.max(host, this.held?.host ?? 0), devices };
  }
  /** Part of the host memory that is mapped pages of the model file. */
  get mappedBytes(): number {
    return this.#plan?.mappedBytes ?? 0;
  }
  /** Settings, sizes and memory of the newest process; null: not planned yet. */
  get plan(): Plan | null {
    return this.#plan;
  }
  /** From now on the engine counts with the memory of this size of its KV cache. */
  claim({ bytes }: Step): void {
    if (this.#plan !== null) this.#plan = { ...this.#plan, bytes };
  }
  /** Duration of the last load. */
  get loadMs(): number {
    return this.#loadMs;
  }
  /** True if the engine is loaded, runs no generation and is not retiring. */
  get isIdle(): boolean {
    return this.#state.name === 'loaded' && this.requests.size === 0 && this.#retiring === null;
  }

  /** True if a process that has been ended is not gone yet. */
  get isEnding(): boolean {
    return this.#children.size > (this.child === null ? 0 : 1);
  }

  /** True while the current process loads with a plan. */
  get isLoadPlanned(): boolean {
    return this.#state.name === 'loading' && this.#state.isPlanned;
  }

  /** The reason why the engine is not loaded (any more). */
  gone(): SvcError {
    return this.failure ?? new SvcError('ENGINE_CRASHED', `the engine of ${this.model.id} has just exited`);
  }

  /** From now on the engine is restarted without a request. */
  keep(): void {
    this.#kept = true;
  }

  /** Resets the failures, so that the next `ready` tries at once. */
  forgive(): void {
    this.#failures = 0;
    this.culprits.forget();
    if (this.#state.name === 'failed') this.#become({ name: 'idle' });
  }

  /**
   * Returns the minimum context of the load that is planned now, in tokens: the longest that was granted before or that
   * a request waits for; 0: none. If it does not fit, only the requests for as much are refused.
   */
  askContext(): number {
    const lengths = Array.from(this.#waiting, ({ contextLength }) => contextLength);
    const longest = Math.max(this.#grantedContext, ...lengths);
    if (this.#state.name === 'loading') this.#state.askedContext = longest;
    return longest;
  }

  /**
   * Resolves when the model is loaded, loading it if needed. Throws the reason why it is not, or `signal.reason`. If
   * the context is too short the engine is reloaded, once for all concurrent requests; a longer one is kept.
   */
  async ready(signal: AbortSignal, contextLength = 0): Promise<void> {
    const wait = { contextLength };
    this.#waiting.add(wait);
    try {
      await this.#load(signal, contextLength);
      const short = this.child;
      // Repeated while it is still the same process: another request began the restart and was cancelled.
      while (this.child === short && (this.info?.context_length ?? contextLength) < contextLength) {
        await this.retire(signal);
        // A kept engine restarts even if this request was cancelled meanwhile.
        if (this.#kept && this.#state.name === 'idle') this.#start();
        await this.#load(signal, contextLength);
      }
      this.#grantedContext = Math.max(this.#grantedContext, Math.min(contextLength, this.info?.context_length ?? 0));
    } finally {
      this.#waiting.delete(wait);
      if (this.#waiting.size === 0 && !this.#kept && this.#state.name === 'loading') {
        void this.#dismiss(
          { name: 'idle' },
          new SvcError('CANCELLED', `no request waits for ${this.model.id} any more`),
        );
      }
    }
  }

  send(message: ToEngine): void {
    this.child?.send(message);
  }

  /**
   * Ends the process as soon as it runs nothing; resolves when it is gone. Requests that arrive meanwhile wait and then
   * reload the model. If `signal` aborts while the process still runs generations, it stays, and `signal.reason` is
   * thrown.
   */
  async retire(signal: AbortSignal): Promise<void> {
    if (this.#retiring !== null) {
      await abortable(this.#retiring.promise, signal);
      return;
    }
    const retiring = deferred();
    this.#retiring = retiring;
    try {
      // Requests whose `ready` has just resolved begin before the next turn.
      await nextTurn();
      while (this.#state.name === 'loaded' && this.requests.size > 0) {
        const idle = deferred();
        this.requests.onIdle = idle.resolve;
        await abortable(idle.promise, signal);
        await nextTurn();
      }
      if (this.#state.name !== 'loaded') return;
      await this.#dismiss({ name: 'idle' }, new SvcError('CANCELLED', `${this.model.id} was evicted from memory`));
    } finally {
      this.requests.onIdle = () => undefined;
      this.#retiring = null;
      retiring.resolve();
    }
  }

  /** Ends the process gracefully. Resolves when it is gone. REQUIRES: no generation runs. */
  async unload(): Promise<void> {
    this.#kept = false;
    this.#failures = 0;
    this.#grantedContext = 0;
    await this.#dismiss({ name: 'idle' }, new SvcError('CANCELLED', `${this.model.id} was unloaded`));
  }

  /** Like `unload`, permanently. */
  async close(): Promise<void> {
    await this.#dismiss({ name: 'closed', error: STOPPING }, new SvcError('CANCELLED', 'svc is stopping'));
  }

  /** Ends every request with `error`, then the process gracefully, permanently. Resolves when it is gone. */
  async interrupt(error: SvcError): Promise<void> {
    await this.#dismiss({ name: 'closed', error }, error);
  }

  /** Kills everything at once, permanently, with `error`. Resolves when every process is gone. */
  async destroy(error: SvcError): Promise<void> {
    for (const child of this.#children) child.kill(error);
    await this.#dismiss({ name: 'closed', error }, error);
  }

  async #load(signal: AbortSignal, contextLength: number): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#retiring !== null) {
        await abortable(this.#retiring.promise, signal);
        continue;
      }
      const state = this.#state;
      switch (state.name) {
        case 'loaded':
          return;
        case 'closed':
          throw state.error;
        case 'idle':
          this.#start();
          break;
        case 'loading':
          await abortable(state.done.promise, signal).catch((error: unknown) => {
            const isRefused = error instanceof SvcError && error.code === 'OUT_OF_MEMORY';
            if (!isRefused || state.askedContext <= contextLength) throw error;
          });
          break;
        case 'failed':
          await this.#rest(state, signal);
          if (this.#state === state) this.#start();
          break;
      }
    }
  }

  async #rest({ error, retryAt }: Extract<State, { name: 'failed' }>, signal: AbortSignal): Promise<void> {
    const leftMs = retryAt - performance.now();
    if (leftMs <= 0) return;
    if (error.code !== 'ENGINE_CRASHED') throw error;
    if (leftMs > PATIENCE_MS) {
      const seconds = Math.ceil(leftMs / 1000);
      throw new SvcError(
        'NOT_READY',
        `the engine of ${this.model.id} failed ${String(this.#failures)} times and restarts in ${String(seconds)} s; last error: ${error.message}`,
        { retryAfterSeconds: seconds, ...(error.hint === undefined ? {} : { hint: error.hint }) },
      );
    }
    await abortable(sleep(leftMs), signal);
  }

  #loaded(): LoadedEngine {
    if (this.#state.name !== 'loaded') throw this.gone();
    return this.#state;
  }

  #start(): void {
    clearTimeout(this.#restart);
    if (this.#state.name === 'failed') this.#options.onRestart?.();
    const { log, plan, shaderFolder, stallTimeoutMs, entry } = this.#options;
    this.#startedAt = performance.now();
    const done = deferred();
    const child: EngineChild = new EngineChild({
      model: this.model.id,
      path: this.model.path,
      shaderFolder,
      plan: async (estimate, signal) => {
        let options: NativeLoadOptions = {};
        await plan(this, estimate, signal, (chosen) => {
          this.#plan = chosen;
          if (this.#state.name === 'loading' && this.#state.child === child) this.#state.isPlanned = true;
          ({ options } = chosen);
        });
        // The load time does not include waiting for memory.
        this.#startedAt = performance.now();
        return options;
      },
      stallTimeoutMs,
      log,
      entry,
      inFlight: this.requests,
      onProgress: (fraction) => {
        if (this.child === child) this.#fraction = fraction;
      },
      onLoaded: (info) => {
        if (this.child !== child) return;
        this.#loadMs = performance.now() - this.#startedAt;
        this.#become({ name: 'loaded', child, info, since: performance.now() });
        this.#options.onLoaded?.(info);
        done.resolve();
      },
      grow: (demand) => this.#options.grow(this, demand),
      onDevices: (devices) => this.#options.onDevices?.(devices),
      onSilence: () => {
        this.#options.onChange();
      },
      onEnd: (error, endless) => {
        this.#children.delete(child);
        // A process that waits for its plan has none of its memory yet.
        const isWaiting = this.state === 'loading' && !this.isLoadPlanned && !this.isEnding;
        if (this.#children.size === 0 || isWaiting) this.#plan = null;
        this.#options.onChange();
        if (this.child === child) this.#failed(error, endless);
      },
    });
    this.#children.add(child);
    this.#fraction = 0;
    this.#become({ name: 'loading', child, done, askedContext: 0, isPlanned: false });
  }

  /** `endless`: as for EngineChild's `onEnd`. */
  #failed(error: SvcError, endless: number | null): void {
    if (error.code === 'ENGINE_CRASHED') this.#options.onCrash?.();
    const state = this.#state;
    const now = performance.now();
    if (state.name === 'loaded' && now - state.since > STABLE_MS) this.#failures = 0;
    // OUT_OF_MEMORY is no failure of the model: the next request, or a shorter context, may find room.
    const isRefused = error.code === 'OUT_OF_MEMORY' && state.name === 'loading';
    const isTooLong = isRefused && state.askedContext > 0;
    if (isRefused) this.#grantedContext = 0;
    else if (state.name === 'loaded') this.#failures = this.culprits.failuresAfter(error, this.#failures, endless);
    else this.#failures++;
    const delayMs = isTooLong ? 0 : restartDelayMs(this.#failures);
    this.#become({ name: 'failed', error, retryAt: now + delayMs });
    this.#failAll(state, error, endless);
    if (!this.#kept || !(isTooLong || error.code === 'ENGINE_CRASHED')) return;
    this.#restart = setTimeout(() => {
      if (this.#state.name === 'failed') this.#start();
    }, delayMs).unref();
  }

  /** Ends the current process, if any. Resolves when every process is gone. */
  async #dismiss(next: State, reason: SvcError): Promise<void> {
    clearTimeout(this.#restart);
    const state = this.#state;
    this.#become(next);
    this.#failAll(state, reason);
    if ('child' in state) void state.child.close(reason);
    await Promise.all([...this.#children].map(({ ended }) => ended));
  }

  /** Fails everything that relied on the process of `state`. */
  #failAll(state: State, error: SvcError, endless: number | null = null): void {
    if (state.name === 'loading') state.done.reject(error);
    this.requests.failAll(error, endless);
  }

  #become(state: State): void {
    this.#state = state;
    this.#options.onChange();
  }
}
