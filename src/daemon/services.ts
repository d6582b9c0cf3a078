/**
 * The daemon's interface for its listeners. Implemented by Daemon, passed to every handler. It has the methods that a
 * listener may call; those of the daemon's parts are described where they are declared.
 */
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
import type { KeyScope } from '../protocol/keys.ts';
import type { ListedModel } from '../protocol/model/listed.ts';
import type { OriginEntry } from '../protocol/origins.ts';
import type { DrainRecord, LoadEvent, LoadWishes, PullEvent, PullRequest, ReloadRecord } from '../protocol/routes.ts';
import type { Tracer } from '../protocol/traces/span.ts';
import type { BackgroundResponses } from '../responses/background/background.ts';
import type { ResponseStore } from '../responses/response-store.ts';
import type { Console } from './console/console.ts';
import type { HealthFeed } from './health-feed.ts';
import type { Keys } from './keys.ts';
import type { Metrics } from './metrics.ts';
import type { ModelWork } from './models/model-work.ts';
import type { Shelf } from './models/shelf.ts';
import type { CloudProviders } from './providers.ts';
import type { FailureLog } from './request-log.ts';

export type { PageFile } from './console/page-files.ts';

export interface Services {
  readonly log: Logger;
  /** Log lines of failed requests. */
  readonly failures: FailureLog;
  readonly router: Router;
  readonly access: Pick<Keys, 'admit'>;
  readonly console: Omit<Console, 'sessions' | 'close'>;
  readonly metrics: Pick<Metrics, 'requestEnded' | 'callEnded' | 'page'>;
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
  readonly shelf: Pick<Shelf, keyof Shelf>;
  readonly work: Pick<ModelWork, keyof ModelWork>;
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
