/** The daemon's interface for its listeners. Implemented by Daemon, passed to every handler. */
import type { CloudProviders } from './providers.ts';
import type { Logger } from '../log/log.ts';
import type { Router } from '../routing/router.ts';
import type {
  ConditionName,
  HealthRecord,
  ModelRecord,
  ProviderRecord,
  ReadyRecord,
  StatusRecord,
} from '../protocol/records.ts';
import type { CatalogueModel, ConsoleLink, SessionKey } from '../protocol/console.ts';
import type { DoctorRecord } from '../protocol/doctor.ts';
import type { KeyLimits, KeyScope, KeyWishes, NewKey, ShownKey } from '../protocol/keys.ts';
import type { LiveEvent } from '../protocol/live.ts';
import type { LogEvent, LogLevel } from '../protocol/logs.ts';
import type { UsageRecord } from '../protocol/usage.ts';
import type { ImportEvent, ImportWishes } from '../protocol/model/import.ts';
import type { ListedModel } from '../protocol/model/listed.ts';
import type { QuantizeEvent, QuantizeWishes } from '../protocol/model/quantize.ts';
import type { VerifyEvent, VerifyResult } from '../protocol/model/verify.ts';
import type { ModelDefaults } from '../protocol/llama-server/props.ts';
import type { OriginEntry } from '../protocol/origins.ts';
import type { CreateRequest } from '../protocol/ollama/models.ts';
import type { ModelDescription } from '../protocol/ollama/show.ts';
import type { DrainRecord, LoadEvent, LoadWishes, PullEvent, PullRequest, ReloadRecord } from '../protocol/routes.ts';
import type { Tracer } from '../protocol/traces/span.ts';
import type { BackgroundResponses } from '../responses/background/background.ts';
import type { ResponseStore } from '../responses/response-store.ts';
import type { HealthFeed } from './health-feed.ts';
import type { FailureLog } from './request-log.ts';

export interface Admission {
  readonly scope: KeyScope;
  /** Name of the API key. null: none was needed. */
  readonly key: string | null;
  /** Limits of the key. Absent: it has none. */
  readonly limits?: KeyLimits;
}

/** Access control over TCP. */
export interface Access {
  /**
   * Resolves with the scope of a caller that connected to `localAddress` with these keys; `admin` where no key is
   * needed. null: refused. Never rejects.
   */
  admit(localAddress: string | undefined, keys: readonly string[]): Promise<Admission | null>;
}

/** Counters fed by the listeners, and the Prometheus page. */
export interface ListenerMetrics {
  /** `route`: the path in the table of routes; null: no route matched. */
  requestEnded(route: string | null, status: number): void;
  /** `method`: `svc.v1.Runtime/GetHealth`; `code`: the name of gRPC's status. */
  callEnded(method: string, code: string): void;
  /** Without providers and API keys for a caller whose scope allows no providers. */
  page(scope: KeyScope): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** The models of this machine, for those who describe, name and remove them. */
export interface ModelShelf {
  /** Reads the headers of the model's files. Throws MODEL_NOT_FOUND, MODEL_INVALID. */
  describe(model: ModelRecord): Promise<ModelDescription>;
  /** What its file and the config say. Throws MODEL_INVALID, if the file cannot be read. */
  defaultsOf(model: ModelRecord): Promise<ModelDefaults>;
  /** Gives `model` a further name, which stays when the first is removed. Throws INVALID_REQUEST, CANNOT_WRITE. */
  copy(model: ModelRecord, name: string): Promise<void>;
  /** As `svc model rm --yes`. Throws INVALID_REQUEST for the built-in model, BUSY while it is in use, CANNOT_WRITE. */
  remove(model: ModelRecord): Promise<void>;
  /** As `svc model default`. Throws INVALID_REQUEST, CANNOT_WRITE. */
  setDefault(model: ModelRecord): Promise<void>;
  /** The catalogue of models to pull, against the memory and the disk of this machine. */
  catalogue(): Promise<readonly CatalogueModel[]>;
  /**
   * As `svc model create`: makes a name with settings from `model`. Resolves with the settings that were skipped, and
   * why. Throws INVALID_REQUEST, CANNOT_WRITE.
   */
  create(
    name: string,
    model: ModelRecord,
    settings: Pick<CreateRequest, 'parameters'> & { readonly system?: string },
  ): Promise<readonly string[]>;
}

/** Work on the models of this machine that may take hours, one of each kind at a time: BUSY. Aborting cancels it. */
export interface LongWork {
  /** As `svc model quantize`; nothing is kept if it is cancelled. Rejects as `quantizeModel`. */
  quantize(wishes: QuantizeWishes, signal: AbortSignal): AsyncIterable<QuantizeEvent>;
  /** As `svc model verify MODEL`. Rejects with MODEL_NOT_FOUND, CANNOT_WRITE. */
  verify(model: string, signal: AbortSignal): AsyncIterable<VerifyEvent | VerifyResult>;
  /**
   * As `svc model import`; models that were registered before it was cancelled stay. Rejects with MODEL_NOT_FOUND,
   * CANNOT_WRITE.
   */
  import(wishes: ImportWishes, signal: AbortSignal): AsyncIterable<ImportEvent>;
}

export interface LiveOptions {
  readonly intervalMs: number;
  /** The stream ends after so many samples. Absent: never. */
  readonly count?: number;
}

export interface LogQuery {
  /** Number of earlier records. */
  readonly tail: number;
  readonly follow: boolean;
  /** Id of a request, or of its trace. Absent: all records. */
  readonly request?: string;
  /** Absent: all levels. */
  readonly level?: LogLevel;
}

/** A file of the console's page. */
export interface PageFile {
  readonly contentType: string;
  readonly text: string;
  readonly etag: string;
}

/** What the console has besides the public API. */
export interface ConsoleServices {
  /** null: the page has no such file, or this build has no page. */
  page(name: string): Promise<PageFile | null>;
  /** Makes a link that signs a browser in, once. `file`: as in ConsoleLink. Throws NOT_READY, CANNOT_WRITE. */
  link(file: boolean): Promise<ConsoleLink>;
  /** Exchanges the token of a link for a key. Throws UNAUTHORIZED. */
  signIn(token: string): SessionKey;
  /** Samples of what the daemon does now. */
  live(options: LiveOptions, signal: AbortSignal): AsyncIterable<LiveEvent>;
  /** Records of the daemon's own log. Rejects with CANNOT_WRITE, FORBIDDEN. */
  logs(query: LogQuery, signal: AbortSignal): AsyncIterable<LogEvent>;
  /** Runs `svc doctor`. Rejects with TIMEOUT, INTERNAL. */
  doctor(): Promise<DoctorRecord>;
  /** As `svc usage`. Rejects with the error of the file system. */
  usage(days: number, by: { readonly byKey: boolean }): Promise<readonly UsageRecord[]>;
  /** Throws CONFIG_INVALID. */
  keys(): readonly ShownKey[];
  /** Throws INVALID_REQUEST, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
  addKey(key: KeyWishes): Promise<NewKey>;
  /** Throws NOT_FOUND, CONFIG_INVALID, CANNOT_WRITE, BUSY. */
  removeKey(name: string): Promise<void>;
}

export interface Services {
  readonly log: Logger;
  /** Log lines of failed requests. */
  readonly failures: FailureLog;
  readonly router: Router;
  readonly access: Access;
  readonly console: ConsoleServices;
  readonly metrics: ListenerMetrics;
  readonly tracer: Tracer;
  /** Stored responses of OpenAI's Responses API. */
  readonly responses: ResponseStore;
  /** Those that are answered without a connection. */
  readonly background: BackgroundResponses;
  /** Host header values that are accepted besides the bound addresses. */
  readonly allowedHosts: readonly string[];
  /** Origins of the pages that may use the HTTP API. */
  readonly origins: readonly OriginEntry[];
  /** Notifies of changes in `health` and `ready`. */
  readonly healthFeed: HealthFeed;
  ready(exclude?: ReadonlySet<ConditionName>): ReadyRecord;
  health(): HealthRecord;
  status(): StatusRecord;
  models(): Promise<readonly ModelRecord[]>;
  /** Names that a caller of this scope may use as the model of a request. */
  listed(scope: KeyScope): Promise<readonly ListedModel[]>;
  /** Answers that an engine computes at the same time. */
  readonly slots: number;
  readonly shelf: ModelShelf;
  readonly work: LongWork;
  providers(): readonly ProviderRecord[];
  readonly cloud: Pick<CloudProviders, 'models' | 'test' | 'lend'>;
  load(model: string, signal: AbortSignal, wishes?: LoadWishes): AsyncIterable<LoadEvent>;
  /** Throws BUSY while the model is in use; with `whenIdle` the model goes after its last use. */
  unload(model: string, whenIdle?: boolean): Promise<void>;
  /** `dialect`: how an unprefixed model name is resolved (svc catalogue or Ollama registry). */
  pull(request: PullRequest, signal: AbortSignal, dialect: 'svc' | 'ollama'): AsyncIterable<PullEvent>;
  /** Reloads the config. Throws CONFIG_INVALID. */
  reload(): ReloadRecord;
  /** Refuses new requests while on; the daemon keeps running. Throws NOT_READY when it is stopping. */
  drain(on: boolean): DrainRecord;
  /** Starts the drain that ends the daemon; returns at once. */
  stop(drainTimeoutMs: number): void;
}
