/**
 * The running daemon: its conditions, its listeners, and the order of its start and end. `run` reads from top to
 * bottom; the other public methods implement Services, which the listeners call.
 */
import type { Server } from 'node:http';
import type { Backend } from '../backends/backend.ts';
import { parseAddress } from '../config/address.ts';
import type { Config } from '../config/config.ts';
import { modelNamesIn } from '../config/model-settings.ts';
import { KeysSeen } from '../home/keys-seen.ts';
import type { DaemonFile } from '../home/daemon-file.ts';
import type { Paths } from '../home/paths.ts';
import { InstalledVersion } from '../config/installed-version.ts';
import { VERSION } from '../config/version.ts';
import type { Logger } from '../log/log.ts';
import { ERRORS, SvcError } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import type { KeyScope } from '../protocol/keys.ts';
import type { ListedModel } from '../protocol/model/listed.ts';
import type { OriginEntry } from '../protocol/origins.ts';
import type { ModelNames } from '../protocol/model/settings.ts';
import type {
  ConditionName,
  HealthRecord,
  ModelRecord,
  ProviderRecord,
  ReadyRecord,
  StatusRecord,
} from '../protocol/records.ts';
import type { DrainRecord, LoadEvent, LoadWishes, PullEvent, PullRequest, ReloadRecord } from '../protocol/routes.ts';
import { listModels } from '../routing/listed.ts';
import type { Outcome, Router } from '../routing/router.ts';
import type { BackgroundResponses } from '../responses/background/background.ts';
import { backgroundOf, responseStoreOf } from '../responses/configured.ts';
import type { ResponseStore } from '../responses/response-store.ts';
import { tracesOf, type Traces } from '../traces/configured.ts';
import { Checks, type Store } from './checks.ts';
import { Conditions, type ConditionWriter } from './conditions.ts';
import { Console } from './console/console.ts';
import { OwnDaemonFile } from './daemon-file.ts';
import { healthRecord, newIdentity, readyRecord, statusRecord, type Identity } from './health.ts';
import { GrpcListener } from './grpc/listener.ts';
import { HealthFeed } from './health-feed.ts';
import { createListener } from './http/server.ts';
import { inBackground } from './in-background.ts';
import type { InheritedSockets } from './inherited.ts';
import { drain, warnAtStart, type Lifecycle, type StopCause } from './lifecycle.ts';
import { Keys } from './keys.ts';
import { listen } from './listeners.ts';
import { becomeTheDaemon, bindAgain } from './lock.ts';
import { Metrics } from './metrics.ts';
import { DefaultModel } from './models/default-model.ts';
import type { LocalEngines } from './models/local-engines.ts';
import { ModelWork, type ModelWorkOptions } from './models/model-work.ts';
import { Shelf, type ShelfOptions } from './models/shelf.ts';
import { Monitor } from './monitor.ts';
import { conditionOf, recordsOf, type CloudProviders } from './providers.ts';
import { Reloader } from './reload.ts';
import { FailureLog } from './request-log.ts';
import type { ServiceManager } from './service-manager.ts';
import type { Services } from './services.ts';

export interface DaemonParts extends Pick<ModelWorkOptions, 'installed' | 'quantizer' | 'surroundings'> {
  readonly mode: DaemonFile['mode'];
  readonly paths: Paths;
  readonly config: Config;
  readonly modelsDir: string;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
  /** Sockets bound by a service manager. Absent: none. */
  readonly inherited?: InheritedSockets;
  readonly serviceManager?: ServiceManager;
  readonly store: Store & ShelfOptions['store'];
  readonly local: LocalEngines;
  readonly backends: ReadonlyMap<string, Backend>;
  readonly providers: CloudProviders;
  readonly router: Router;
  /** Counts the usage of an answer. Never rejects. */
  countAnswer(outcome: Outcome): Promise<void>;
  /** Write errors of the log and the ledger; null: none. */
  fileTroubles(): readonly (string | null)[];
  /** Tidies up the saved prefixes. Called once, when no engine runs and none can start. Never rejects. */
  tidyPrefixes(): Promise<void>;
  /** Sets the size limit of the prefix files, effective at once. undefined: none is configured. Never throws. */
  onPrefixBytes(bytes: number | undefined): void;
  /** Replaces the names that the config gives to models, and their settings. Never throws. */
  onModelNames(names: ModelNames): void;
  pull(request: PullRequest, signal: AbortSignal, dialect: 'svc' | 'ollama'): AsyncIterable<PullEvent>;
}

export class Daemon implements Services {
  readonly #parts: DaemonParts;
  readonly #conditions: Conditions;
  readonly #engine: ConditionWriter;
  readonly #monitor: Monitor;
  readonly #reloader: Reloader;
  readonly #http: Server;
  /** Second HTTP listener, where Ollama's clients look for it. null: not configured. */
  readonly #ollama: Server | null;
  readonly #control: Server;
  readonly #grpc: GrpcListener;
  readonly #installed = new InstalledVersion();
  readonly #ending = new AbortController();
  readonly log: Logger;
  readonly failures: FailureLog;
  readonly router: Router;
  readonly responses: ResponseStore;
  readonly background: BackgroundResponses;
  readonly healthFeed = new HealthFeed();
  readonly console: Console;
  readonly access: Keys;
  readonly metrics: Metrics;
  readonly tracer: Traces;
  readonly shelf: Shelf;
  readonly work: ModelWork;
  readonly cloud: CloudProviders;
  #identity: Identity;
  #file: OwnDaemonFile | null = null;
  /** Error of the last attempt to load the default model; null once it is loaded. */
  readonly #defaultModel: DefaultModel;

  constructor(parts: DaemonParts) {
    const { mode, paths, config, log, router } = parts;
    this.#parts = parts;
    this.log = log;
    this.failures = new FailureLog(log);
    this.router = router;
    this.cloud = parts.providers;
    this.console = new Console({
      ...parts,
      ending: this.#ending.signal,
      loaded: () => parts.local.loadedModels(),
      http: () => this.#identity.http,
    });
    this.access = new Keys(paths.keyFile, new KeysSeen(paths.stateDir), log, this.console.sessions);
    this.responses = responseStoreOf(config.responses, paths, log);
    this.tracer = tracesOf(config.traces, log);
    this.background = backgroundOf(this.responses, router, this.tracer, this.access, log);
    this.#identity = newIdentity(mode, paths);
    this.#conditions = new Conditions(log, undefined, () => this.healthFeed.changed());
    this.#engine = this.#conditions.writer('engine');
    this.#reloader = this.#createReloader();
    this.#defaultModel = this.#createDefaultModel();
    this.#monitor = this.#createMonitor();
    this.metrics = new Metrics({
      vllmAliases: config.metrics.vllm_aliases,
      snapshot: () => ({
        version: VERSION,
        ready: this.ready().status === 'ready',
        queue: { waiting: router.waiting, active: router.active },
        models: parts.local.loadedModels(),
        engines: parts.local.engineCounts(),
        providers: this.providers(),
        spans: this.tracer.counts(),
      }),
    });
    router.observe((outcome, id) => this.#answered(outcome, id));
    this.shelf = new Shelf({
      ...parts,
      models: async () => await this.models(),
      unload: async (model) => await this.unload(model),
      devices: () => parts.local.devices(),
      reload: () => void this.reload(),
    });
    this.work = new ModelWork({ ...parts, ending: this.#ending.signal, reload: () => void this.reload() });
    this.#http = createListener({ services: this, control: false });
    this.#ollama = config.ollama.listen === null ? null : createListener({ services: this, control: false });
    this.#control = createListener({ services: this, control: true });
    this.#grpc = new GrpcListener(this);
  }

  async #answered(outcome: Outcome, id: string): Promise<void> {
    this.metrics.answerEnded(outcome);
    const { caller, model, finish } = outcome;
    if (finish?.repetition)
      this.failures.warn({ caller }, { id, model, ...finish.repetition }, 'the answer repeats itself');
    await this.#parts.countAnswer(outcome);
  }

  #createReloader(): Reloader {
    const parts = this.#parts;
    return new Reloader({
      paths: parts.paths,
      config: parts.config,
      condition: this.#conditions.writer('config'),
      log: parts.log,
      apply: (changed) => {
        parts.providers.apply(changed);
        parts.onPrefixBytes(changed.engine.prefix_disk_bytes);
        parts.onModelNames(modelNamesIn(changed.models));
        this.healthFeed.changed();
      },
    });
  }

  #createDefaultModel(): DefaultModel {
    const { store, local, log } = this.#parts;
    return new DefaultModel({
      find: async () => await store.find(),
      load: (model, signal) => local.load(model, signal),
      onAttempt: () => this.engineChanged(),
      log,
      signal: this.#ending.signal,
    });
  }

  #createMonitor(): Monitor {
    const parts = this.#parts;
    const { log, paths, store, modelsDir } = parts;
    return new Monitor({
      log,
      checks: new Checks({
        conditions: this.#conditions,
        store,
        paths,
        modelsDir,
        fileTroubles: () =>
          [...parts.fileTroubles(), this.#file?.trouble ?? null].filter((trouble) => trouble !== null),
        providers: () => conditionOf(this.providers()),
        apiKeys: () => this.access.check(),
        version: () => this.#installed.check(),
      }),
      listeners: this.#conditions.writer('listeners'),
      socketPath: paths.socketPath,
      rebind: () => this.#rebind(),
      engines: () => parts.local.engineProcesses(),
      onSample: () => this.healthFeed.sampled(),
    });
  }

  /** Runs until the daemon has ended completely; resolves with the cause. Throws if it cannot start. */
  async run(): Promise<StopCause> {
    const { lifecycle, log, serviceManager } = this.#parts;
    const file = await this.#open();
    // An error is logged and set in the condition `config` by the Reloader.
    lifecycle.onReload = () => {
      Promise.resolve()
        .then(() => this.reload())
        .catch(() => undefined);
    };
    inBackground(log, 'startup', this.#begin(file));
    inBackground(log, 'opening the stored responses', this.background.open());

    const cause = await lifecycle.stopping;
    serviceManager?.stopping();
    await this.#close(cause);
    this.failures.close();
    await file.end({ code: cause.code, signal: cause.signal, at: new Date().toISOString(), reason: cause.reason });
    log.info({ reason: cause.reason, code: cause.code }, 'stopped');
    serviceManager?.close();
    return cause;
  }

  /** Resolves when every condition has been checked once, and loading the default model was tried once. */
  async #begin(file: OwnDaemonFile): Promise<void> {
    await Promise.all([this.#monitor.start(file, this.#addresses()), this.#defaultModel.load()]);
    // A fresh sample, so that the first READY record includes the engine.
    this.#monitor.sample();
    this.#conditions.enter('running');
    this.#parts.serviceManager?.ready(`${this.#conditions.verdict().state}, ${this.#addresses()}`);
  }

  get allowedHosts(): readonly string[] {
    return this.#reloader.config.http.allowed_hosts.map((name) => name.toLowerCase());
  }

  get origins(): readonly OriginEntry[] {
    return this.#reloader.config.http.origins;
  }

  ready(exclude?: ReadonlySet<ConditionName>): ReadyRecord {
    return readyRecord(this.#conditions, exclude);
  }

  health(): HealthRecord {
    const { router, local, config } = this.#parts;
    return healthRecord(this.#identity, this.#conditions, {
      resources: this.#monitor.resources,
      devices: local.devices(),
      models: local.loadedModels(),
      queue: { waiting: router.waiting, active: router.active, limit: config.engine.queue_limit },
      providers: router.providerHealth(),
    });
  }

  status(): StatusRecord {
    return statusRecord(this.#identity, this.#conditions, this.#parts.local, this.#installed.version);
  }

  async models(): Promise<readonly ModelRecord[]> {
    return await this.#parts.local.models();
  }

  async listed(scope: KeyScope): Promise<readonly ListedModel[]> {
    const { config, providers } = this.#parts;
    const { policies } = providers;
    const models = await this.models();
    return listModels({ models, providers: this.providers(), policies, defaults: config.engine, scope });
  }

  get slots(): number {
    return this.#parts.local.slots;
  }

  providers(): readonly ProviderRecord[] {
    return recordsOf(this.#parts.backends, this.router.providerHealth());
  }

  load(model: string, signal: AbortSignal, wishes: LoadWishes = {}): AsyncIterable<LoadEvent> {
    if (this.router.draining) {
      throw new SvcError('NOT_READY', 'svc is draining and loads no models', { retryAfterSeconds: 1 });
    }
    return this.#parts.local.load(model, signal, wishes);
  }

  pull(request: PullRequest, signal: AbortSignal, dialect: 'svc' | 'ollama'): AsyncIterable<PullEvent> {
    if (this.router.draining) {
      throw new SvcError('NOT_READY', 'svc is draining and pulls no models', { retryAfterSeconds: 1 });
    }
    return this.#parts.pull(request, AbortSignal.any([signal, this.#ending.signal]), dialect);
  }

  async unload(model: string, whenIdle = false): Promise<void> {
    await this.#parts.local.unload(model, whenIdle);
  }

  reload(): ReloadRecord {
    return this.#reloader.reload();
  }

  drain(on: boolean): DrainRecord {
    const { router } = this;
    if (this.#conditions.phase === 'stopping') throw new SvcError('NOT_READY', 'svc is stopping');
    if (on) router.drain();
    else router.resume();
    this.#conditions.drain(on);
    return { draining: on, active: router.active, waiting: router.waiting };
  }

  stop(drainTimeoutMs: number): void {
    this.#parts.lifecycle.stop({ reason: 'svc stop', signal: null, code: 0, drainTimeoutMs });
  }

  /** An engine was started, loaded or lost. */
  engineChanged(): void {
    const { status, reason } = this.#parts.local.engineStatus();
    const { failure } = this.#defaultModel;
    this.#engine(status, status === 'fail' && failure !== null ? failure.message : reason);
    this.healthFeed.changed();
  }

  /** Binds the listeners; from then on this process is the daemon. */
  async #open(): Promise<OwnDaemonFile> {
    const { paths, inherited } = this.#parts;
    const prepare = (): Promise<void> => this.#parts.tidyPrefixes();
    try {
      return await becomeTheDaemon(paths, this.#control, () => this.#takeOver(), inherited?.control, prepare);
    } catch (error) {
      for (const server of [...this.#httpServers(), this.#grpc.server]) server.close();
      throw error;
    }
  }

  /** Writes daemon.json and binds the other listeners. REQUIRES: the control socket is bound, the start lock held. */
  async #takeOver(): Promise<OwnDaemonFile> {
    const { paths, config, log, mode } = this.#parts;
    const file = new OwnDaemonFile(paths.daemonFile, log);
    this.#file = file;
    const { lastExit } = file;

    await file.begin(this.#identity);
    this.#identity = { ...this.#identity, last_exit: lastExit };
    try {
      const hasKeys = this.access.exist();
      const http = await listen(this.#http, 'http', config.http, hasKeys, this.#parts.inherited?.http);
      // Set at once: a client answered over HTTP may ask for the address next.
      this.#identity = { ...this.#identity, http };
      const grpc = await listen(this.#grpc.server, 'grpc', config.grpc, hasKeys);
      this.#identity = { ...this.#identity, grpc };
      if (this.#ollama !== null && config.ollama.listen !== null) {
        const ollama = await listen(this.#ollama, 'ollama', parseAddress(config.ollama.listen), hasKeys);
        this.#identity = { ...this.#identity, ollama };
      }
    } catch (error) {
      const { code, message } = SvcError.from(error);
      log.fatal({ err: error }, 'cannot start');
      const reason = `it could not start: ${message}`;
      await file.end({ code: ERRORS[code].exit, signal: null, at: new Date().toISOString(), reason });
      throw error;
    }
    await file.begin(this.#identity);

    const { pid, version, http, grpc, ollama, socket } = this.#identity;
    const addresses = { http, grpc, ...given({ ollama: ollama ?? undefined }), socket };
    log.info({ pid, version, node: process.versions.node, mode, ...addresses }, 'started');
    warnAtStart(log, lastExit);
    return file;
  }

  async #rebind(): Promise<void> {
    // While stopping, the closed control socket must not be bound again.
    if (this.#conditions.phase === 'stopping') return;
    await bindAgain(this.#control, this.#parts.paths);
    this.log.warn({ socket: this.#parts.paths.socketPath }, 'the control socket was removed: it is bound again');
  }

  #addresses(): string {
    const { http, grpc, ollama, socket } = this.#identity;
    const second = ollama === null ? '' : `ollama ${ollama}, `;
    return `http ${http ?? ''}, grpc ${grpc ?? ''}, ${second}control socket ${socket}`;
  }

  #httpServers(): Server[] {
    return [this.#control, this.#http, ...(this.#ollama === null ? [] : [this.#ollama])];
  }

  async #close({ reason, drainTimeoutMs }: StopCause): Promise<void> {
    const { router, backends, providers, lifecycle, log } = this.#parts;
    this.#conditions.enter('stopping', reason);
    this.#ending.abort(new SvcError('NOT_READY', 'svc is stopping'));
    await this.background.close();
    await drain({
      router,
      backends: [...backends.values(), ...providers.retiring],
      servers: this.#httpServers(),
      grpc: this.#grpc,
      timeoutMs: drainTimeoutMs,
      hurry: lifecycle.hurry,
      log,
    });
    this.#monitor.stop();
    await this.console.close();
    this.responses.close();
    await this.tracer.close();
  }
}
