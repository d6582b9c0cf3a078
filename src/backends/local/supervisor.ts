/**
 * Keeps one model's engine: starts its process when somebody asks, gives the generations of a dead
 * one their error, and starts it anew.
 *
 *   idle ──ready()──► loading ──► loaded ──crash──► failed ──(delay)──► loading …
 *
 * Restarting. The first failure may be an accident and costs no delay; each further one doubles it,
 * up to a minute (backoff.ts), and a minute of good work forgets them. A request that comes during a
 * short delay waits for it; during a long one it is refused at once, with NOT_READY and the time
 * that is left after crashes, with the load's own error after a load that failed by itself. An
 * engine that is `kept` (the default model, or one loaded by name) is restarted without being asked,
 * unless what failed would fail again.
 *
 * A load that nobody waits for any more is given up, unless the engine is kept.
 *
 * A process that was told to end is no longer "the" engine from that moment on, so that nobody joins
 * it; but it is remembered until it is gone, because close and destroy resolve only then.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { NativeDevice, NativeLoadOptions, NativeRequest } from '../../engine/addon.ts';
import type { EmbedFrameRequest, EngineInfo, ToEngine } from '../../engine/frames.ts';
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import { abortable } from '../abortable.ts';
import { restartDelayMs } from './backoff.ts';
import { deferred, type Deferred } from './deferred.ts';
import { EngineChild } from './engine-child.ts';
import type { Bytes, Estimate, Plan } from './fit.ts';
import { Generation, type GenerationOwner } from './generation.ts';
import { Suspects } from './suspects.ts';

const STOPPING = new SvcError('NOT_READY', 'svc is stopping');
/** Good work for so long forgets earlier failures. */
const STABLE_MS = 60_000;
/** A request waits for a restart that is so near. */
const PATIENCE_MS = 2_000;

export interface SupervisorOptions {
  readonly model: { readonly id: string; readonly path: string };
  /**
   * Calls `onPlan` with what its process loads the model with, once there is room, and in the turn in which that was
   * found. Throws OUT_OF_MEMORY.
   */
  plan(engine: Supervisor, estimate: Estimate, signal: AbortSignal, onPlan: (plan: Plan) => void): Promise<void>;
  readonly stallTimeoutMs: number;
  readonly log: Logger;
  readonly entry?: string | undefined;
  /** The state has changed. */
  onChange(): void;
  /** Its engine has looked at the devices. */
  onDevices?(devices: readonly NativeDevice[]): void;
  /** For the counts of both. */
  onCrash?(): void;
  onRestart?(): void;
}

type State =
  | { readonly name: 'idle' }
  | { readonly name: 'loading'; readonly child: EngineChild; readonly done: Deferred }
  | { readonly name: 'loaded'; readonly child: EngineChild; readonly info: EngineInfo; readonly since: number }
  | { readonly name: 'failed'; readonly error: SvcError; readonly retryAt: number }
  | { readonly name: 'closed'; readonly error: SvcError };

export class Supervisor implements GenerationOwner {
  readonly model: SupervisorOptions['model'];
  /** Requests that a process of this engine has died with. */
  readonly suspects = new Suspects();
  readonly #options: SupervisorOptions;
  #state: State = { name: 'idle' };
  #fraction = 0;
  #failures = 0;
  #kept = false;
  #waiting = 0;
  /** What the newest process was loaded with, or is; null: none is there, or it is not decided. */
  #plan: Plan | null = null;
  #wantedContext = 0;
  #startedAt = 0;
  #loadMs = 0;
  /** Set while the process is to end as soon as nothing runs in it. */
  #retiring: Deferred | null = null;
  #onIdle: () => void = () => undefined;
  #restart: NodeJS.Timeout | undefined;
  #lastId = 0;
  readonly #generations = new Map<number, Generation>();
  /** Every process that is not gone yet. */
  readonly #children = new Set<EngineChild>();

  constructor(options: SupervisorOptions) {
    this.model = options.model;
    this.#options = options;
  }

  get state(): State['name'] {
    return this.#state.name;
  }
  get kept(): boolean {
    return this.#kept;
  }
  /** In a row. */
  get failures(): number {
    return this.#failures;
  }
  /** Of the load that runs, 0 to 1. */
  get fraction(): number {
    return this.#fraction;
  }
  get info(): EngineInfo | null {
    return this.#state.name === 'loaded' ? this.#state.info : null;
  }
  /** Why the state is `failed`. */
  get failure(): SvcError | null {
    return this.#state.name === 'failed' ? this.#state.error : null;
  }
  /** The process of the state; null where it has none. */
  get child(): EngineChild | null {
    return 'child' in this.#state ? this.#state.child : null;
  }
  get pid(): number | null {
    return this.child?.pid ?? null;
  }
  /** Of every process that is not gone yet. */
  get pids(): number[] {
    return [...this.#children].flatMap(({ pid }) => pid ?? []);
  }

  /** What it holds, as measured. null: it is not loaded, or it isn't measured on this system. */
  get held(): Bytes | null {
    const measured = this.#state.name === 'loaded' ? this.#state.child.privateBytes : null;
    if (this.#plan === null || measured === null) return null;
    return { host: measured + this.#plan.mappedBytes, devices: this.#plan.bytes.devices };
  }
  /**
   * What has to be left to it: what was planned, which it takes as it is used, and what it was measured to hold where
   * that is more. null: nothing yet.
   */
  get claimed(): Bytes | null {
    if (this.#plan === null) return null;
    const { host, devices } = this.#plan.bytes;
    return { host: Math.max(host, this.held?.host ?? 0), devices };
  }
  /** Of that, on the host, pages of the model's file. */
  get mappedBytes(): number {
    return this.#plan?.mappedBytes ?? 0;
  }
  /** How long the last load took. */
  get loadMs(): number {
    return this.#loadMs;
  }
  /** The longest context that was asked for; 0: none was. */
  get wantedContext(): number {
    return this.#wantedContext;
  }
  /** Nothing is computed in it, and nothing is about to end it. */
  get isIdle(): boolean {
    return this.#state.name === 'loaded' && this.#generations.size === 0 && this.#retiring === null;
  }

  /** Why it is not loaded (any more). */
  gone(): SvcError {
    return this.failure ?? new SvcError('ENGINE_CRASHED', `the engine of ${this.model.id} has just ended`);
  }

  /** From now on the engine is restarted without being asked. */
  keep(): void {
    this.#kept = true;
  }

  /** The next `ready` tries at once, whatever happened before. */
  forgive(): void {
    this.#failures = 0;
    if (this.#state.name === 'failed') this.#become({ name: 'idle' });
  }

  /**
   * Resolves when the model is loaded, loading it if need be. Throws why it is not, or `signal.reason`. A context that
   * is too short is made anew, once for all who ask for more meanwhile; one that is longer than asked for stays.
   */
  async ready(signal: AbortSignal, contextLength = 0): Promise<void> {
    this.#wantedContext = Math.max(this.#wantedContext, contextLength);
    this.#waiting++;
    try {
      await this.#load(signal);
      if (this.info !== null && this.info.contextLength < contextLength) {
        await this.retire(signal);
        await this.#load(signal);
      }
    } finally {
      this.#waiting--;
      if (this.#waiting === 0 && !this.#kept && this.#state.name === 'loading') {
        void this.#dismiss({ name: 'idle' }, new SvcError('CANCELLED', `nobody waits for ${this.model.id} any more`));
      }
    }
  }

  /** REQUIRES: `ready` has resolved. Throws ENGINE_CRASHED if the engine is gone again, or BUSY. */
  generate(request: Omit<NativeRequest, 'id'>): Generation {
    return this.#begin((child, id) => {
      child.generate({ id, ...request });
    });
  }

  /** As generate. */
  embed(request: Omit<EmbedFrameRequest, 'id'>): Generation {
    const numbers = request.inputs.length * (this.info?.embeddingLength ?? 0);
    return this.#begin((child, id) => {
      child.embed({ id, ...request });
    }, numbers);
  }

  #begin(ask: (child: EngineChild, id: number) => void, numbers = 0): Generation {
    if (this.#state.name !== 'loaded') throw this.gone();
    const id = ++this.#lastId;
    ask(this.#state.child, id);
    const generation = new Generation(id, this, numbers);
    this.#generations.set(id, generation);
    return generation;
  }

  send(message: ToEngine): void {
    this.child?.send(message);
  }

  offend(what: string): void {
    this.child?.offend(what);
  }

  release(id: number): void {
    this.#generations.delete(id);
    if (this.#generations.size === 0) this.#onIdle();
  }

  /**
   * Ends the process as soon as nothing runs in it; whoever comes meanwhile waits, and then loads it anew. Resolves
   * when it is gone. If `signal` is aborted before that has begun, it stays, and this throws `signal.reason`.
   */
  async retire(signal: AbortSignal): Promise<void> {
    if (this.#retiring !== null) {
      await abortable(this.#retiring.promise, signal);
      return;
    }
    const retiring = deferred();
    this.#retiring = retiring;
    try {
      // Who was told a moment ago that it is loaded begins before the next turn.
      await nextTurn();
      while (this.#state.name === 'loaded' && this.#generations.size > 0) {
        const idle = deferred();
        this.#onIdle = idle.resolve;
        await abortable(idle.promise, signal);
        await nextTurn();
      }
      if (this.#state.name !== 'loaded') return;
      await this.#dismiss({ name: 'idle' }, new SvcError('CANCELLED', `${this.model.id} makes way`));
    } finally {
      this.#onIdle = () => undefined;
      this.#retiring = null;
      retiring.resolve();
    }
  }

  /** Ends the process in good order. Resolves when it is gone. REQUIRES: no generation runs. */
  async unload(): Promise<void> {
    this.#kept = false;
    this.#failures = 0;
    this.#wantedContext = 0;
    await this.#dismiss({ name: 'idle' }, new SvcError('CANCELLED', `${this.model.id} was unloaded`));
  }

  /** Like `unload`, for good. */
  async close(): Promise<void> {
    await this.#dismiss({ name: 'closed', error: STOPPING }, new SvcError('CANCELLED', 'svc is stopping'));
  }

  /** Ends everything with `error`, for good and now. Resolves when every process is gone. */
  async destroy(error: SvcError): Promise<void> {
    for (const child of this.#children) child.kill(error);
    await this.#dismiss({ name: 'closed', error }, error);
  }

  async #load(signal: AbortSignal): Promise<void> {
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
          await abortable(state.done.promise, signal);
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
        `the engine of ${this.model.id} has failed ${String(this.#failures)} times and rests for ${String(seconds)} s; the last time: ${error.message}`,
        { retryAfterSeconds: seconds, ...(error.hint === undefined ? {} : { hint: error.hint }) },
      );
    }
    await abortable(sleep(leftMs), signal);
  }

  #start(): void {
    clearTimeout(this.#restart);
    if (this.#failures > 0) this.#options.onRestart?.();
    const { log, plan, stallTimeoutMs, entry } = this.#options;
    this.#startedAt = performance.now();
    const done = deferred();
    const child: EngineChild = new EngineChild({
      model: this.model.id,
      path: this.model.path,
      plan: async (estimate, signal) => {
        let options: NativeLoadOptions = {};
        await plan(this, estimate, signal, (chosen) => {
          this.#plan = chosen;
          ({ options } = chosen);
        });
        // Waiting for room is no part of what it costs to load it.
        this.#startedAt = performance.now();
        return options;
      },
      stallTimeoutMs,
      log,
      entry,
      onProgress: (fraction) => {
        if (this.child === child) this.#fraction = fraction;
      },
      onLoaded: (info) => {
        if (this.child !== child) return;
        this.#loadMs = performance.now() - this.#startedAt;
        this.#become({ name: 'loaded', child, info, since: performance.now() });
        done.resolve();
      },
      onDevices: (devices) => this.#options.onDevices?.(devices),
      onAccepted: (id) => this.#generations.get(id)?.accept(),
      onVectors: (id, vectors) => this.#generations.get(id)?.pushVectors(vectors),
      onOutputs: (outputs) => {
        for (const output of outputs) this.#generations.get(output.id)?.push(output);
      },
      onSilence: () => {
        this.#options.onChange();
      },
      onEndless: (id) => this.#generations.get(id)?.fail(endless()),
      onEnd: (error) => {
        this.#children.delete(child);
        if (this.#children.size === 0) this.#plan = null;
        this.#options.onChange();
        if (this.child === child) this.#failed(error);
      },
    });
    this.#children.add(child);
    this.#fraction = 0;
    this.#become({ name: 'loading', child, done });
  }

  #failed(error: SvcError): void {
    if (error.code === 'ENGINE_CRASHED') this.#options.onCrash?.();
    const state = this.#state;
    const now = performance.now();
    if (state.name === 'loaded' && now - state.since > STABLE_MS) this.#failures = 0;
    // A model that finds no room has not failed: there may be room for the next who asks, or for less context.
    if (error.code === 'OUT_OF_MEMORY' && state.name === 'loading') this.#wantedContext = 0;
    else this.#failures++;
    const delayMs = restartDelayMs(this.#failures);
    this.#become({ name: 'failed', error, retryAt: now + delayMs });
    this.#failAll(state, error);
    if (!this.#kept || error.code !== 'ENGINE_CRASHED') return;
    this.#restart = setTimeout(() => {
      if (this.#state.name === 'failed') this.#start();
    }, delayMs).unref();
  }

  /** Parts with the process, if there is one. Resolves when every process is gone. */
  async #dismiss(next: State, reason: SvcError): Promise<void> {
    clearTimeout(this.#restart);
    const state = this.#state;
    this.#become(next);
    this.#failAll(state, reason);
    if ('child' in state) void state.child.close(reason);
    await Promise.all([...this.#children].map(({ ended }) => ended));
  }

  /** Tells everyone who relied on the process of `state`. */
  #failAll(state: State, error: SvcError): void {
    if (state.name === 'loading') state.done.reject(error);
    const generations = [...this.#generations.values()];
    this.#generations.clear();
    for (const generation of generations) generation.fail(error);
    this.#onIdle();
  }

  #become(state: State): void {
    this.#state = state;
    this.#options.onChange();
  }
}

/** Not to be tried again: it would take the next engine with it. */
function endless(): SvcError {
  return new SvcError('INVALID_REQUEST', 'the engine could not finish preparing this request: it was ended', {
    hint: "the model's chat template may not end; another model, or shorter messages, may do",
  });
}
