/**
 * Runs models on this machine, each in its own engine process.
 *
 *   generate, embed ──► store.find ──► pool (one engine per model file) ──► supervisor ──► engine process
 *
 * If an engine dies before any text of a request has been sent, the request is retried once on the restarted engine;
 * the client notices only a delay. After the first text the client gets ENGINE_CRASHED: a second answer would not
 * continue the first.
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
import type { Store } from './store.ts';
import { Supervisor } from './supervisor.ts';

/** The engine's own default, passed explicitly so that both agree. */
const DEFAULT_MAX_SEQUENCES = 64;
const LOAD_PROGRESS_MS = 100;
/** Engines report device memory every two seconds; older values are discarded. */
const DEVICES_FRESH_MS = 5_000;

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

/** Disk tier of the prefix cache. */
export interface PrefixPlace {
  readonly folder: string;
  /** File-name prefix for a model's entries; letters and digits. */
  nameOf(modelPath: string): string;
  /** The secret that authenticates the files: 32 hexadecimal digits. */
  key(): string;
}

/** The memory settings of the config's `models` section. */
export interface ResidencySettings {
  readonly memory_budget_bytes?: number;
  /** -1: forever. */
  readonly keep_alive_seconds: number;
}

export interface LocalBackendOptions {
  readonly store: Store;
  readonly engine: EngineSettings;
  /** Absent: no disk tier. */
  readonly prefixes?: PrefixPlace;
  readonly models: ResidencySettings;
  readonly log: Logger;
  /** An engine was started, loaded or lost; the health record changed. */
  readonly onChange: () => void;
  /** The engine process's entry file; tests replace it. */
  readonly entry?: string;
  /** Tests replace it. */
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
  /** Devices as last reported by an engine. */
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
   * Loads a model and keeps it: it is restarted after a crash and stays until unloaded or, unless pinned, evicted for
   * memory. Ends after `loaded`, or throws. Returning early cancels the load, unless another request waits for it.
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
      left.abort(new SvcError('CANCELLED', 'the load was cancelled'));
      lease.release();
    }
  }

  /** Throws BUSY while the model is in use. Resolves when its process is gone, or at once if it is not loaded. */
  async unload(name: string): Promise<void> {
    const loaded = this.#pool.engines.find(({ model }) => model.id === name);
    await this.#pool.unload((loaded?.model ?? (await this.#find(name))).path);
  }

  loadedModels(): LoadedModelHealth[] {
    return this.#pool.engines.flatMap((engine) => {
      const { state, pid, child, info } = engine;
      if (state === 'idle' || state === 'closed') return [];
      const stats = child?.stats ?? null;
      // An embedding engine keeps no KV cache between batches.
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
        // 0 means that the engine is idle: there is no speed to report.
        tokens_per_second: stats === null || stats.tokensPerSecond === 0 ? null : stats.tokensPerSecond,
        steps: cached === null ? null : toStepsHealth(cached),
      };
    });
  }

  /** All engine processes, with figures from their last heartbeats. */
  engineProcesses(): { readonly pid: number; readonly rssBytes: number | null; readonly cpuMs: number | null }[] {
    return this.#pool.engines.flatMap(({ pid, child }) =>
      pid === null ? [] : [{ pid, rssBytes: child?.rssBytes ?? null, cpuMs: child?.cpuMs ?? null }],
    );
  }

  /** Empty before the first engine is loaded. Free memory is null while no engine runs. */
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

  /** Totals of all engines since the daemon's start. */
  engineCounts(): { readonly crashes: number; readonly restarts: number } {
    return { crashes: this.#crashes, restarts: this.#restarts };
  }

  /** Refuses new requests, waits for the running ones, then ends the engines. */
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
    // These affect all clients: only an admin may reload a model with a longer context or shorten its keep-alive.
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
   * `model`: id in the request; the engine may have been started for the same file under another name. `ask` is called
   * again if the engine dies before anything has been sent.
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
        this.#options.log.warn(
          { id: traceId, model, reason: error.message },
          'engine crashed before the first token: retrying once',
        );
      } finally {
        begun();
      }
    }
  }

  /** Sets the size limit of the prefix cache's disk tier, for all engines together. 0: off; the caller deletes it. */
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

  /** Splits an engine's uses into active (admitted, by the last heartbeat) and waiting. */
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
    `context_length is larger than the ${String(contextLength)} tokens that ${model} is loaded with, and this API key may not reload it`,
    {
      hint: 'omit context_length, set engine.context_length in the config, or use a key with scope admin',
      param: 'context_length',
    },
  );
}

function toMilliseconds(seconds: number): number {
  return seconds < 0 ? Infinity : seconds * 1000;
}

/** Clamps to the training context length: a longer context is of no use. */
function atMost(contextLength: number | undefined, { context_length: trained }: ModelRecord): number {
  return Math.min(contextLength ?? 0, trained ?? Infinity);
}

/** Resolves with true as soon as `promise` settles, or false after `milliseconds`. */
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
