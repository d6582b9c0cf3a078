/** What the listeners may ask of the daemon. Built by the composition root, handed to every handler. */
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
import type {
  DrainRecord,
  LoadEvent,
  LoadWishes,
  ProviderTestStep,
  PullEvent,
  PullRequest,
  ReloadRecord,
} from '../protocol/routes.ts';
import type { HealthFeed } from './health-feed.ts';

export interface Admission {
  readonly scope: KeyScope;
  /** Name of the API key. null: none was needed. */
  readonly key: string | null;
}

/** Who is let in over TCP. */
export interface Access {
  /**
   * What a caller may do who came to `localAddress` with these keys; scope `admin` where no key is needed.
   * null: nothing. Never rejects.
   */
  admit(localAddress: string | undefined, keys: readonly string[]): Promise<Admission | null>;
}

/** What the listeners count, and the page on which it stands with all the rest. */
export interface ListenerMetrics {
  /** `route`: its path in the table of routes; null: there was none. */
  requestEnded(route: string | null, status: number): void;
  /** `method`: `svc.v1.Runtime/GetHealth`; `code`: the name of gRPC's status. */
  callEnded(method: string, code: string): void;
  page(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface Services {
  readonly log: Logger;
  readonly router: Router;
  readonly access: Access;
  readonly metrics: ListenerMetrics;
  /** Host header values that are let in besides the bound addresses. */
  readonly allowedHosts: readonly string[];
  /** News in what `health` and `ready` tell. */
  readonly healthFeed: HealthFeed;
  ready(exclude?: ReadonlySet<ConditionName>): ReadyRecord;
  health(): HealthRecord;
  status(): StatusRecord;
  models(): Promise<readonly ModelRecord[]>;
  providers(): readonly ProviderRecord[];
  /** Asks the provider. Throws NOT_FOUND, and what the provider says. */
  providerModels(provider: string, signal: AbortSignal): Promise<readonly string[]>;
  testProvider(provider: string, signal: AbortSignal): AsyncIterable<ProviderTestStep>;
  /** A key in memory, until the daemon ends. Throws NOT_FOUND. */
  lendKey(provider: string, key: string): void;
  load(model: string, signal: AbortSignal, wishes?: LoadWishes): AsyncIterable<LoadEvent>;
  unload(model: string): Promise<void>;
  /** `dialect`: whose names plain ones are. */
  pull(request: PullRequest, signal: AbortSignal, dialect: 'svc' | 'ollama'): AsyncIterable<PullEvent>;
  /** Reads the config again. Throws CONFIG_INVALID. */
  reload(): ReloadRecord;
  /** Takes nothing new from now on, or does so again; the daemon stays. Throws NOT_READY when it is stopping. */
  drain(on: boolean): DrainRecord;
  /** Begins the drain that ends the daemon, and returns at once. */
  stop(drainTimeoutMs: number): void;
}
