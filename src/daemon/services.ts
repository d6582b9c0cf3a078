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
import type { LoadEvent, ReloadRecord } from '../protocol/routes.ts';

export interface Services {
  readonly log: Logger;
  readonly router: Router;
  /** Host header values that are let in besides the bound addresses. */
  readonly allowedHosts: readonly string[];
  ready(exclude?: ReadonlySet<ConditionName>): ReadyRecord;
  health(): HealthRecord;
  status(): StatusRecord;
  models(): Promise<readonly ModelRecord[]>;
  providers(): readonly ProviderRecord[];
  load(model: string, signal: AbortSignal): AsyncIterable<LoadEvent>;
  unload(model: string): Promise<void>;
  /** Reads the config again. Throws CONFIG_INVALID. */
  reload(): ReloadRecord;
  /** Begins the drain and returns at once. */
  stop(drainTimeoutMs: number): void;
}
