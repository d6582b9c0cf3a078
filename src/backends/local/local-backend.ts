/**
 * Runs models on this machine, each in its own engine process.
 *
 *   generate, embed, rerank, tokenize ──► answers ──► pool (an engine per file and load settings) ──► supervisor ──► engine process
 */
import type { EngineRequest, NativeDevice } from '../../engine/addon.ts';
import { hostMemory, type HostMemory } from '../../process/host-memory.ts';
import type { Logger } from '../../log/log.ts';
import { SvcError } from '../../protocol/errors.ts';
import { CONTROL_CALLER, shareOf } from '../../protocol/caller.ts';
import type { EmbedEvent, EmbedRequest } from '../../protocol/embed.ts';
import type { GenerateEvent, GenerateRequest } from '../../protocol/generate.ts';
import type { LoadDefaults, RequestSettings } from '../../protocol/model/settings.ts';
import { given } from '../../protocol/given.ts';
import {
  foundBy,
  triedFields,
  type DeviceRecord,
  type LoadedModelHealth,
  type ModelLoad,
  type ModelRecord,
  type ProviderRecord,
} from '../../protocol/records.ts';
import type { RerankEvent, RerankRequest } from '../../protocol/rerank.ts';
import type { LoadEvent, LoadWishes } from '../../protocol/routes.ts';
import {
  isConversation,
  type DetokenizeEvent,
  type DetokenizeRequest,
  type TokenizeEvent,
  type TokenizeRequest,
} from '../../protocol/tokenize.ts';
import type { Backend, GenerateContext } from '../backend.ts';
import { abortable } from '../abortable.ts';
import { progressOfLoad } from '../load-progress.ts';
import { Answers, contextOf, toMilliseconds } from './answers.ts';
import { engineStatus, type EngineStatus } from './engine-status.ts';
import { settlesWithin } from './deferred.ts';
import { engineModelOf, type EngineModel } from './engine-model.ts';
import { EstimateCache } from './memory/estimate-cache.ts';
import { totalOf } from './memory/fit.ts';
import { loadWishOf, type PrefixPlace } from './memory/load-wish.ts';
import { tried, withAdapters } from './lora.ts';
import { cacheTypeOf, loadedHealth, placementOf } from './loaded-health.ts';
import { Pool } from './pool.ts';
import { checkDimensions, suited, toEngineRequest, toEngineText, withSettings } from './request.ts';
import { Residency } from './memory/residency.ts';
import type { Store } from './store.ts';
import { Supervisor } from './supervisor.ts';

/** The engine's own default, passed explicitly so that both agree. */
const DEFAULT_MAX_SEQUENCES = 64;
const LOAD_PROGRESS_MS = 100;
/** Engines report device memory every two seconds; older values are discarded. */
const DEVICES_FRESH_MS = 5_000;

/** The config's `engine` section. */
export interface EngineSettings extends LoadDefaults {
  readonly threads?: number;
  readonly prompt_threads?: number;
  readonly max_sequences?: number;
  readonly stall_timeout_seconds: number;
  readonly queue_limit: number;
  readonly prefix_disk_bytes?: number;
  readonly prefix_sharing?: 'all' | 'key';
  readonly repetition_guard?: RequestSettings['repetition_guard'];
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
  /** Directory of the GPU driver's shader cache for a model; absent: no cache. */
  shaderFolderOf?(modelPath: string): string;
  readonly models: ResidencySettings;
  readonly log: Logger;
  /** An engine was started, loaded or lost; the health record changed. */
  readonly onChange: () => void;
  /** The engine process's entry file; tests replace it. */
  readonly entry?: string;
  /** Tests replace it. */
  readonly hostMemory?: () => HostMemory;
}

/** A request as an engine takes it. */
type Asked = (engine: Supervisor) => Omit<EngineRequest, 'id'>;

export class LocalBackend implements Backend {
  readonly name = 'local';
  /** Answers that an engine computes at the same time. */
  readonly slots: number;
  readonly #options: LocalBackendOptions;
  readonly #pool: Pool;
  readonly #residency: Residency;
  readonly #answers: Answers;
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
    this.slots = max_sequences;
    this.#pool = new Pool({
      usesLimit: max_sequences + queue_limit,
      keepAliveMs: toMilliseconds(options.models.keep_alive_seconds),
      create: (model) => this.#createEngine(model),
      onMoved: () => void this.modelsChanged(),
      onChange: () => {
        this.#residency.changed();
      },
    });
    this.#residency = new Residency({
      pool: this.#pool,
      budget: options.models.memory_budget_bytes,
      log: options.log,
      hostMemory: options.hostMemory ?? hostMemory,
      devices: () => (this.#areDevicesFresh() ? this.#devices.seen : []),
    });
    this.#answers = new Answers({
      pool: this.#pool,
      log: options.log,
      find: (name, signal) => this.#findFor(name, signal),
      engineModelOf: (model) => this.#engineModelOf(model),
    });
  }

  generate(request: GenerateRequest, context: GenerateContext): AsyncGenerator<GenerateEvent, void, undefined> {
    return this.#answers.answer(request, context, {
      wanted: 'text',
      prepare: (model) => {
        const asked = this.#toEngine(request, model, context);
        return (engine) => engine.requests.generate(asked(engine));
      },
    });
  }

  embed(request: EmbedRequest, context: GenerateContext): AsyncGenerator<EmbedEvent, void, undefined> {
    return this.#answers.answer(request, context, {
      wanted: 'embeddings',
      prepare: () => (engine) => {
        checkDimensions(request.dimensions, engine);
        return engine.requests.embed(request);
      },
    });
  }

  rerank(request: RerankRequest, context: GenerateContext): AsyncGenerator<RerankEvent, void, undefined> {
    return this.#answers.answer(request, context, {
      wanted: 'scores',
      prepare: () => (engine) => engine.requests.rerank(request),
    });
  }

  tokenize(request: TokenizeRequest, context: GenerateContext): AsyncGenerator<TokenizeEvent, void, undefined> {
    return this.#answers.answer(request, context, {
      wanted: isConversation(request) ? 'text' : 'tokens',
      prepare: (model) => {
        const asked = isConversation(request) ? this.#toEngine(request, model, context) : () => toEngineText(request);
        return (engine) => engine.requests.tokenize(asked(engine));
      },
    });
  }

  detokenize(request: DetokenizeRequest, context: GenerateContext): AsyncGenerator<DetokenizeEvent, void, undefined> {
    return this.#answers.answer(request, context, {
      wanted: 'tokens',
      prepare: () => (engine) => engine.requests.detokenize(request),
    });
  }

  /** The result depends on what the engine has found out about the model. */
  #toEngine(request: GenerateRequest, model: ModelRecord, context: GenerateContext): Asked {
    const { prefix_sharing, repetition_guard } = this.#options.engine;
    const whole = withSettings(request, { ...given({ repetition_guard }), ...model.settings });
    const asked = toEngineRequest(withAdapters(whole, this.#withState(model)), context, prefix_sharing);
    return (engine) => suited(asked, whole, engine);
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
      embedding_model: null,
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
    { context_length, keep_alive_seconds, pin = false, briefly = false }: LoadWishes = {},
  ): AsyncGenerator<LoadEvent, void, undefined> {
    const model = await this.#findFor(name, signal);
    const engineModel = this.#engineModelOf(model);
    const length = contextOf(context_length, engineModel);
    const lease = this.#pool.acquire(engineModel, model.id, shareOf(CONTROL_CALLER));
    const left = new AbortController();
    try {
      const { engine } = lease;
      engine.forgive();
      const ready = engine.ready(AbortSignal.any([signal, left.signal]), length);
      const isSettled = (): Promise<boolean> => settlesWithin(ready, LOAD_PROGRESS_MS);
      yield* progressOfLoad(model.size_bytes, () => engine.fraction, isSettled);
      await ready;
      if (!briefly || model.default) {
        engine.keep();
        lease.keepAlive(toMilliseconds(briefly ? -1 : (keep_alive_seconds ?? -1)));
      }
      if (pin) lease.pin();
      const { pid, info } = engine;
      if (pid === null || info === null) throw engine.gone();
      yield { type: 'loaded', model: model.id, pid, context_length: info.context_length };
    } finally {
      left.abort(new SvcError('CANCELLED', 'the load was cancelled'));
      const stay = briefly ? (keep_alive_seconds ?? model.settings?.keep_alive) : undefined;
      const mayShorten = keep_alive_seconds !== undefined || !lease.engine.kept;
      lease.release(stay === undefined ? undefined : toMilliseconds(stay), mayShorten);
    }
  }

  /**
   * As Pool.unload, for all engines of the model. Resolves when their processes are gone, or at once if there are none.
   */
  async unload(name: string, whenIdle = false): Promise<void> {
    const found = await this.#find(name).catch((error: unknown) => SvcError.from(error));
    // An engine may have the files that its model had before, or one that was removed from the store.
    const keys = this.#pool.keysOf(found instanceof SvcError ? name : found.id);
    if (!(found instanceof SvcError)) keys.push(this.#engineModelOf(found).key);
    else if (keys.length === 0) throw found;
    await this.#pool.unload(keys, whenIdle);
  }

  /**
   * Files of models or names of the config have changed: an engine whose files and load settings no model has any more is
   * replaced once it is idle. Never rejects.
   */
  async modelsChanged(): Promise<void> {
    for (const engine of this.#pool.engines) {
      const key = this.#pool.modelOf(engine)?.key;
      const current = await Promise.all(
        this.#pool.names(engine).map(async (name) => ({ name, key: await this.#keyOf(name) })),
      );
      if (current.some((each) => each.key === key)) {
        const moved = current.filter((each) => each.key !== key && each.key !== undefined);
        this.#pool.restore(
          engine,
          moved.map(({ name }) => name),
        );
      } else if (!this.#pool.isRetiring(engine) && current.every((each) => each.key !== undefined)) {
        const left = current.filter((each) => each.key !== null);
        void this.#replace(
          engine,
          left.map(({ name }) => name),
        );
      }
    }
  }

  /** Key of the engine that a model would have now; null: there is no such model; undefined: not known. */
  async #keyOf(name: string): Promise<string | null | undefined> {
    try {
      return this.#engineModelOf(await this.#find(name)).key;
    } catch (error) {
      return SvcError.from(error).code === 'MODEL_NOT_FOUND' && !name.startsWith('file:') ? null : undefined;
    }
  }

  /** Never rejects. */
  async #replace(engine: Supervisor, names: readonly string[]): Promise<void> {
    const { kept } = engine;
    const { model: id, ...wishes } = this.#pool.loadOf(engine);
    this.#options.log.info({ model: id }, 'its files or settings have changed: the engine is replaced once it is idle');
    const isGone = await this.#pool.retire(engine);
    const [name] = names;
    if (!isGone || !kept || name === undefined || this.#closing) return;
    try {
      for await (const _ of this.load(name, new AbortController().signal, wishes));
    } catch (error) {
      this.#options.log.warn({ model: id, err: error }, 'the model cannot be loaded with its new files or settings');
    }
  }

  #engineModelOf(record: ModelRecord): EngineModel {
    return engineModelOf(record, this.#options.engine);
  }

  loadedModels(): LoadedModelHealth[] {
    return this.#pool.engines.flatMap((engine) => loadedHealth(engine, this.#pool.queueOf(engine)) ?? []);
  }

  /** Loads after which the same models would be in memory, to stay as long as now. */
  loads(): ModelLoad[] {
    const running = this.#pool.engines.filter(({ state }) => state === 'loaded' || state === 'loading');
    return running.map((engine) => this.#pool.loadOf(engine));
  }

  /** All engine processes, with figures from their last heartbeats. */
  engineProcesses(): { readonly pid: number; readonly rssBytes: number | null; readonly cpuMs: number | null }[] {
    return this.#pool.engines.flatMap(({ pid, child }) =>
      pid === null ? [] : [{ pid, rssBytes: child?.rssBytes ?? null, cpuMs: child?.cpuMs ?? null }],
    );
  }

  /** Empty before the first engine is loaded. Free memory is null while no engine runs. */
  devices(): DeviceRecord[] {
    const stale = this.#areDevicesFresh() ? {} : { memory_free_bytes: null };
    return this.#devices.seen.map(({ description: _, ...device }) => ({ ...device, ...stale }));
  }

  #areDevicesFresh(): boolean {
    return performance.now() - this.#devices.at < DEVICES_FRESH_MS;
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

  async interrupt(error: SvcError): Promise<void> {
    this.#closing = true;
    await this.#pool.interrupt(error);
  }

  async destroy(error: SvcError): Promise<void> {
    this.#closing = true;
    await this.#pool.destroy(error);
  }

  /** Sets the size limit of the prefix cache's disk tier, for all engines together. 0: off; the caller deletes it. */
  setPrefixBytes(bytes: number): void {
    this.#prefixBytes = bytes;
    for (const engine of this.#pool.engines) engine.send({ type: 'prefix_bytes', bytes });
  }

  #createEngine(model: EngineModel): Supervisor {
    const { engine, store, log, entry, prefixes, onChange } = this.#options;
    // The config has the engine's names.
    const { threads, prompt_threads, max_sequences = DEFAULT_MAX_SEQUENCES } = engine;
    const general = given({ threads, prompt_threads, max_sequences });
    const created: Supervisor = new Supervisor({
      model,
      plan: async (supervisor, estimate, signal, onPlan) => {
        const cached = this.#estimates.of(model, estimate);
        const prefixBytes = this.#prefixBytes;
        const wish = await loadWishOf(model, { store, log, engine: general, prefixes, prefixBytes });
        await this.#residency.plan(supervisor, wish, cached, signal, onPlan);
      },
      grow: (supervisor, demand) => this.#residency.grow(supervisor, demand),
      shaderFolder: this.#options.shaderFolderOf?.(model.path),
      stallTimeoutMs: engine.stall_timeout_seconds * 1000,
      log,
      entry,
      onLoaded: (info) => {
        this.#pool.loaded(created);
        // A change during the load did not reach the engine.
        const { prefix_bytes = 0 } = created.plan?.options ?? {};
        const bytes = this.#prefixBytes;
        if (bytes !== prefix_bytes) created.send({ type: 'prefix_bytes', bytes });
        store.noteLoad(model.path, foundBy(info)).catch((error: unknown) => {
          log.debug({ model: model.id, err: error }, 'cannot save the capabilities that the load has found');
        });
      },
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
    return created;
  }

  async #find(name: string | undefined): Promise<ModelRecord> {
    const model = await this.#options.store.find(name);
    if (model.default) this.#defaultModel = model.id;
    return model;
  }

  /** Throws NOT_READY while svc is stopping. */
  async #findFor(name: string | undefined, signal: AbortSignal): Promise<ModelRecord> {
    this.#refuseWhenClosing();
    const model = await abortable(this.#find(name), signal);
    this.#refuseWhenClosing();
    return model;
  }

  #withState(model: ModelRecord): ModelRecord {
    const engine = this.#pool.engine(this.#engineModelOf(model).key);
    if (engine === undefined || engine.state === 'idle' || engine.state === 'closed') return model;
    const { state, pid, info } = engine;
    if (pid === null || info === null) return { ...model, state };
    return {
      ...model,
      ...triedFields(model.capabilities, foundBy(info)),
      ...given({ adapters: tried(model.adapters, info.adapters) }),
      state,
      loaded: {
        pid,
        device: info.device,
        context_length: info.context_length,
        cache_type: cacheTypeOf(engine),
        memory_bytes: engine.held === null ? null : totalOf(engine.held),
        placement: placementOf(engine),
        active: this.#pool.queueOf(engine).active,
        expires_at: this.#pool.expiresAt(engine),
      },
    };
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
  }
}
