/**
 * Answers from models on this machine, each in an engine process of its own.
 *
 *   generate, embed ──► store.find ──► pool (one engine a model file) ──► supervisor ──► engine process
 *
 * A request whose engine dies before any text has been passed on is tried once more, on the engine
 * that is started in its place; nobody notices but for the time. After the first text the caller
 * gets ENGINE_CRASHED: a second answer would not continue the first.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CacheType, NativeDevice, NativeLoadOptions, NativeStats } from '../../engine/addon.ts';
import { hostMemory, type HostMemory } from '../../engine/host-memory.ts';
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import { CONTROL_CALLER, shareOf } from '../../protocol/caller.ts';
import type { EmbedEvent, EmbedRequest, VectorsEvent } from '../../protocol/embed.ts';
import type { FinishEvent, GenerateEvent, GenerateRequest, StartEvent, TextEvent } from '../../protocol/generate.ts';
import type {
  DeviceRecord,
  LoadedModelHealth,
  ModelRecord,
  ProviderRecord,
  StepsHealth,
} from '../../protocol/records.ts';
import type { LoadEvent, LoadWishes } from '../../protocol/routes.ts';
import type { Backend, GenerateContext } from '../backend.ts';
import { abortable } from '../abortable.ts';
import { engineStatus, type EngineStatus } from './engine-status.ts';
import { draftPathFor } from './draft-model.ts';
import { EstimateCache } from './estimate-cache.ts';
import { totalOf } from './fit.ts';
import { Pool, type Model } from './pool.ts';
import type { Generation } from './generation.ts';
import {
  checkDimensions,
  checkKind,
  ofRequest,
  toFinishEvent,
  toNativeRequest,
  toVectors,
  withWayOut,
} from './request.ts';
import { Residency } from './residency.ts';
import { Supervisor } from './supervisor.ts';

/** The engine's own default; told to it, so that both mean the same. */
const DEFAULT_MAX_SEQUENCES = 64;
const LOAD_PROGRESS_MS = 100;
/** Engines look at the devices every two seconds; what is older than this is no measurement any more. */
const DEVICES_FRESH_MS = 5_000;

/** The part of the model store that is needed here. */
export interface Store {
  list(): Promise<readonly ModelRecord[]>;
  /** An id, an alias or a path; absent: the default. Throws MODEL_NOT_FOUND. */
  find(name?: string): Promise<ModelRecord>;
}

/** The config's `engine` section. */
export interface EngineSettings {
  readonly context_length?: number;
  readonly threads?: number;
  readonly prompt_threads?: number;
  readonly gpu_layers?: number;
  readonly cache_type?: CacheType;
  readonly draft_model?: string | null;
  readonly max_sequences?: number;
  readonly stall_timeout_seconds: number;
  readonly queue_limit: number;
  readonly prefix_disk_bytes?: number;
  readonly prefix_sharing?: 'all' | 'key';
}

/** Where engines keep prefixes on the disk. */
export interface PrefixPlace {
  readonly folder: string;
  /** What a model's files there begin with; letters and digits. */
  nameOf(modelPath: string): string;
  /** The secret that authenticates the files: 32 hexadecimal digits. */
  key(): string;
}

/** Of the config's `models` section, what concerns memory. */
export interface ResidencySettings {
  readonly memory_budget_bytes?: number;
  /** -1: for ever. */
  readonly keep_alive_seconds: number;
}

export interface LocalBackendOptions {
  readonly store: Store;
  readonly engine: EngineSettings;
  /** Absent: they keep none there. */
  readonly prefixes?: PrefixPlace;
  readonly models: ResidencySettings;
  readonly log: Logger;
  /** An engine was started, loaded or lost: health has changed. */
  readonly onChange: () => void;
  /** The engine process's entry file; another one in tests. */
  readonly entry?: string;
  /** Another machine's in tests. */
  readonly hostMemory?: () => HostMemory;
}

type LocalEvent = StartEvent | TextEvent | VectorsEvent | FinishEvent;

export class LocalBackend implements Backend {
  readonly name = 'local';
  readonly #options: LocalBackendOptions;
  readonly #pool: Pool;
  readonly #residency: Residency;
  readonly #estimates = new EstimateCache();
  #closing = false;
  #prefixBytes: number;
  #sinceToken: string | null = null;
  #defaultModel: string | null = null;
  #crashes = 0;
  #restarts = 0;
  /** As an engine has seen them last. */
  #devices: { readonly seen: readonly NativeDevice[]; readonly at: number } = { seen: [], at: 0 };

  constructor(options: LocalBackendOptions) {
    this.#options = options;
    const { queue_limit, max_sequences = DEFAULT_MAX_SEQUENCES, prefix_disk_bytes = 0 } = options.engine;
    this.#prefixBytes = prefix_disk_bytes;
    this.#pool = new Pool({
      usesLimit: max_sequences + queue_limit,
      keepAliveMs: toMilliseconds(options.models.keep_alive_seconds),
      create: (model) => this.#createEngine(model),
      onChange: () => {
        this.#residency.changed();
      },
    });
    this.#residency = new Residency({
      pool: this.#pool,
      budget: options.models.memory_budget_bytes,
      log: options.log,
      hostMemory: options.hostMemory ?? hostMemory,
    });
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncGenerator<GenerateEvent, void, undefined> {
    const native = toNativeRequest(request, {
      share: shareOf(context.caller),
      ownPrefixes: this.#options.engine.prefix_sharing === 'key',
    });
    const ask = (engine: Supervisor): Generation => engine.generate(native);
    try {
      for await (const event of this.#lend(request, 'text', context, ask)) if (event.type !== 'vectors') yield event;
    } catch (error) {
      throw error instanceof SvcError ? withWayOut(ofRequest(error, request), request) : error;
    }
  }

  async *embed(request: EmbedRequest, context: GenerateContext): AsyncGenerator<EmbedEvent, void, undefined> {
    const ask = (engine: Supervisor): Generation => {
      checkDimensions(request.dimensions, engine);
      return engine.embed({
        inputs: request.input,
        ...(request.truncate === undefined ? {} : { truncate: request.truncate }),
      });
    };
    try {
      for await (const event of this.#lend(request, 'embeddings', context, ask)) if (event.type !== 'text') yield event;
    } catch (error) {
      throw error instanceof SvcError ? withWayOut(error, request) : error;
    }
  }

  async models(): Promise<readonly ModelRecord[]> {
    const models = await this.#options.store.list();
    return models.map((model) => this.#withState(model));
  }

  async modelNames(): Promise<readonly string[]> {
    return (await this.#options.store.list()).map(({ id }) => id);
  }

  record(): ProviderRecord {
    const { status, reason } = this.engineStatus();
    return {
      name: this.name,
      kind: 'local',
      base_url: null,
      endpoints: [],
      default_model: this.#defaultModel,
      credential: { source: 'none', name: null, present: false },
      enabled: true,
      default_cloud: false,
      state: this.#sinceToken === null && status === 'fail' ? 'unknown' : status === 'fail' ? 'unhealthy' : 'healthy',
      last_checked_at: this.#sinceToken,
      last_error: status === 'ok' ? null : reason,
    };
  }

  /**
   * Loads a model and keeps it: after a crash it comes back by itself, and it stays until it is unloaded or, unless it
   * is pinned, its memory is needed. Ends after `loaded`, or throws. Leaving it early gives the load up, unless
   * somebody else waits for it.
   */
  async *load(
    name: string,
    signal: AbortSignal,
    { context_length, keep_alive_seconds = -1, pin = false }: LoadWishes = {},
  ): AsyncGenerator<LoadEvent, void, undefined> {
    this.#refuseWhenClosing();
    const model = await abortable(this.#find(name), signal);
    this.#refuseWhenClosing();
    const lease = this.#pool.acquire(model, shareOf(CONTROL_CALLER));
    const left = new AbortController();
    try {
      const { engine } = lease;
      engine.forgive();
      const ready = engine.ready(AbortSignal.any([signal, left.signal]), atMost(context_length, model));
      for (let told = -1; !(await settlesWithin(ready, LOAD_PROGRESS_MS));) {
        if (engine.fraction === told) continue;
        told = engine.fraction;
        yield { type: 'progress', fraction: told };
      }
      await ready;
      engine.keep();
      lease.keepAlive(toMilliseconds(keep_alive_seconds));
      if (pin) lease.pin();
      const { pid, info } = engine;
      if (pid === null || info === null) throw engine.gone();
      yield { type: 'loaded', model: model.id, pid, context_length: info.contextLength };
    } finally {
      left.abort(new SvcError('CANCELLED', 'the load was given up'));
      lease.release();
    }
  }

  /** Throws BUSY while the model is used. Resolves when its process is gone; not loaded is a success. */
  async unload(name: string): Promise<void> {
    const loaded = this.#pool.engines.find(({ model }) => model.id === name);
    await this.#pool.unload((loaded?.model ?? (await this.#find(name))).path);
  }

  loadedModels(): LoadedModelHealth[] {
    return this.#pool.engines.flatMap((engine) => {
      const { state, pid, child, info } = engine;
      if (state === 'idle' || state === 'closed') return [];
      const stats = child?.stats ?? null;
      // An engine that makes embeddings keeps nothing from one batch to the next.
      const cached = info?.makesEmbeddings === true ? null : stats;
      const { waiting, active } = this.#queueOf(engine);
      return {
        id: engine.model.id,
        state,
        pid,
        rss_bytes: child?.rssBytes ?? null,
        context_length: info?.contextLength ?? null,
        active,
        waiting,
        kv_cells_used: cached?.cellsUsed ?? null,
        kv_cells_cached: cached?.cellsCached ?? null,
        kv_cells_total: cached?.cellsTotal ?? null,
        kv_tokens_swapped: cached?.swappedTokens ?? null,
        // An engine that does nothing has no speed that could be measured: its 0 is none.
        tokens_per_second: stats === null || stats.tokensPerSecond === 0 ? null : stats.tokensPerSecond,
        steps: cached === null ? null : toStepsHealth(cached),
      };
    });
  }

  /** The processes of all engines, with the figures of their last heartbeats. */
  engineProcesses(): { readonly pid: number; readonly rssBytes: number | null; readonly cpuMs: number | null }[] {
    return this.#pool.engines.flatMap(({ pid, child }) =>
      pid === null ? [] : [{ pid, rssBytes: child?.rssBytes ?? null, cpuMs: child?.cpuMs ?? null }],
    );
  }

  /** None before the first engine is loaded. What is free is known only while one is. */
  devices(): DeviceRecord[] {
    const { seen, at } = this.#devices;
    const isFresh = performance.now() - at < DEVICES_FRESH_MS;
    return seen.map(({ name, backend, type, memoryTotalBytes, memoryFreeBytes }) => ({
      name,
      backend,
      type,
      memory_total_bytes: memoryTotalBytes,
      memory_free_bytes: isFresh ? memoryFreeBytes : null,
    }));
  }

  pids(): number[] {
    return this.#pool.engines.flatMap(({ pids }) => pids);
  }

  engineStatus(): EngineStatus {
    return engineStatus(this.#pool.engines, this.#sinceToken);
  }

  /** Since the start, of all engines. */
  engineCounts(): { readonly crashes: number; readonly restarts: number } {
    return { crashes: this.#crashes, restarts: this.#restarts };
  }

  /** Takes no new work, lets what runs end, and ends the engines. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.#pool.idle();
    await this.#pool.close();
  }

  async destroy(error: SvcError): Promise<void> {
    this.#closing = true;
    await this.#pool.destroy(error);
  }

  async *#lend(
    { model: name, context_length, keep_alive_seconds }: GenerateRequest | EmbedRequest,
    wanted: 'text' | 'embeddings',
    context: GenerateContext,
    ask: (engine: Supervisor) => Generation,
  ): AsyncGenerator<LocalEvent, void, undefined> {
    this.#refuseWhenClosing();
    const model = await abortable(this.#find(name), context.signal);
    this.#refuseWhenClosing();
    checkKind(model, wanted);
    // What a model takes of the machine, and for how long, concerns everybody.
    const mayChange = context.caller.scope === 'admin';
    const lease = this.#pool.acquire(model, shareOf(context.caller));
    try {
      if (model.default) {
        lease.engine.keep();
        lease.keepAlive(Infinity);
      }
      const length = atMost(context_length, model);
      const ready = async (engine: Supervisor): Promise<void> => {
        await engine.ready(context.signal, mayChange ? length : 0);
        const has = engine.info?.contextLength ?? length;
        if (!mayChange && has < length) throw mayNotReload(model.id, has);
      };
      yield* this.#answer(lease.engine, model.id, context, ready, ask);
    } finally {
      lease.release(keep_alive_seconds === undefined ? undefined : toMilliseconds(keep_alive_seconds), mayChange);
    }
  }

  /**
   * `model`: as it was asked for; the engine may have been started for the same file under another name. `ask` is
   * called again when the engine dies before anything has been passed on.
   */
  async *#answer(
    engine: Supervisor,
    model: string,
    { signal, arrivedAt, traceId }: GenerateContext,
    ready: (engine: Supervisor) => Promise<void>,
    ask: (engine: Supervisor) => Generation,
  ): AsyncGenerator<LocalEvent, void, undefined> {
    let started = false;
    let spoke = false;
    let asked = false;
    for (let attempt = 1; ; attempt++) {
      let begun = (): void => undefined;
      try {
        if (asked) begun = await engine.suspects.turn(signal);
        do await ready(engine);
        while (!asked && (await engine.suspects.none(signal)));
        asked = true;
        for await (const event of ask(engine).events(signal)) {
          switch (event.type) {
            case 'accepted':
              if (!started) yield { type: 'start', model, provider: this.name };
              started = true;
              break;
            case 'text':
              begun();
              spoke = true;
              yield event;
              break;
            case 'vectors':
              begun();
              spoke = true;
              yield { type: 'vectors', vectors: toVectors(event.vectors, engine) };
              break;
            case 'finish':
              yield toFinishEvent(event.finish, arrivedAt, event.at);
              return;
          }
        }
      } catch (error) {
        if (attempt > 1 || spoke || !(error instanceof SvcError) || error.code !== 'ENGINE_CRASHED') throw error;
        this.#options.log.warn({ id: traceId, model, reason: error.message }, 'nothing was sent yet: trying once more');
      } finally {
        begun();
      }
    }
  }

  /** What all engines together may keep of prompts on the disk from now on. 0: nothing; who asks for it deletes the rest. */
  setPrefixBytes(bytes: number): void {
    this.#prefixBytes = bytes;
    for (const engine of this.#pool.engines) engine.send({ type: 'prefix_bytes', bytes });
  }

  #prefixOptions(modelPath: string): Partial<NativeLoadOptions> {
    const { prefixes } = this.#options;
    if (prefixes === undefined || this.#prefixBytes === 0) return {};
    return {
      prefixFolder: prefixes.folder,
      prefixModel: prefixes.nameOf(modelPath),
      prefixBytes: this.#prefixBytes,
      prefixKey: prefixes.key(),
    };
  }

  #createEngine(model: Model): Supervisor {
    const { engine, store, log, entry, onChange } = this.#options;
    const settings: NativeLoadOptions = {
      maxSequences: engine.max_sequences ?? DEFAULT_MAX_SEQUENCES,
      ...(engine.context_length === undefined ? {} : { contextLength: engine.context_length }),
      ...(engine.threads === undefined ? {} : { threads: engine.threads }),
      ...(engine.prompt_threads === undefined ? {} : { promptThreads: engine.prompt_threads }),
      ...(engine.gpu_layers === undefined ? {} : { gpuLayers: engine.gpu_layers }),
      ...(engine.cache_type === undefined ? {} : { cacheType: engine.cache_type }),
    };
    return new Supervisor({
      model,
      plan: async (supervisor, estimate, signal, onPlan) => {
        const cached = this.#estimates.of(model, estimate);
        const draftPath = await draftPathFor(model, { name: engine.draft_model ?? null, store, log });
        const options = {
          ...settings,
          ...this.#prefixOptions(model.path),
          ...(draftPath === undefined ? {} : { draftPath }),
        };
        await this.#residency.plan(supervisor, options, cached, signal, onPlan);
      },
      stallTimeoutMs: engine.stall_timeout_seconds * 1000,
      log,
      entry,
      onDevices: (seen) => {
        this.#devices = { seen, at: performance.now() };
      },
      onCrash: () => {
        this.#crashes += 1;
      },
      onRestart: () => {
        this.#restarts += 1;
      },
      onChange: () => {
        this.#residency.changed();
        if (this.#pool.engines.some(({ state }) => state === 'loaded')) this.#sinceToken ??= new Date().toISOString();
        onChange();
      },
    });
  }

  async #find(name: string | undefined): Promise<ModelRecord> {
    const model = await this.#options.store.find(name);
    if (model.default) this.#defaultModel = model.id;
    return model;
  }

  #withState(model: ModelRecord): ModelRecord {
    const engine = this.#pool.engines.find((each) => each.model.path === model.path);
    if (engine === undefined || engine.state === 'idle' || engine.state === 'closed') return model;
    const { state, pid, info } = engine;
    if (pid === null || info === null) return { ...model, state };
    return {
      ...model,
      state,
      loaded: {
        pid,
        device: info.device,
        context_length: info.contextLength,
        memory_bytes: engine.held === null ? null : totalOf(engine.held),
        active: this.#queueOf(engine).active,
        expires_at: this.#pool.expiresAt(engine),
      },
    };
  }

  /** Of the users, those whose sequences are in the cache, as of the last heartbeat; the others wait. */
  #queueOf(engine: Supervisor): { waiting: number; active: number } {
    const uses = this.#pool.uses(engine);
    const active = Math.min(uses, engine.child?.stats?.active ?? 0);
    return { waiting: uses - active, active };
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
  }
}

function mayNotReload(model: string, contextLength: number): SvcError {
  return new SvcError(
    'FORBIDDEN',
    `${model} has a context of ${String(contextLength)} tokens, and this API key may not change it`,
    {
      hint: 'leave context_length out; set engine.context_length in the config; or use a key of scope admin',
      param: 'context_length',
    },
  );
}

function toMilliseconds(seconds: number): number {
  return seconds < 0 ? Infinity : seconds * 1000;
}

/** A model has no use for more than it was trained for. */
function atMost(contextLength: number | undefined, { context_length: trained }: ModelRecord): number {
  return Math.min(contextLength ?? 0, trained ?? Infinity);
}

/** Whether `promise` is settled after so long at most. */
async function settlesWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, sleep(milliseconds, false)]);
}

function toStepsHealth(stats: NativeStats): StepsHealth {
  return {
    count: stats.steps,
    rows: stats.rows,
    prompt_tokens: stats.promptTokens,
    cached_tokens: stats.cachedTokens,
    generated_tokens: stats.generatedTokens,
    drafted_tokens: stats.draftedTokens,
    accepted_tokens: stats.acceptedTokens,
    preemptions: stats.preemptions,
    evicted_cells: stats.evictedCells,
    predicted_ms: Math.round(stats.predictedMs * 10) / 10,
    spent_ms: Math.round(stats.spentMs * 10) / 10,
    threads: stats.threads,
  };
}
