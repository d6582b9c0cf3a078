/** The backend of this machine, as the daemon sees it. */
import type { Backend } from '../../backends/backend.ts';
import type { CheckStatus, DeviceRecord, LoadedModelHealth, ModelLoad, ModelRecord } from '../../protocol/records.ts';
import type { LoadEvent, LoadWishes } from '../../protocol/routes.ts';
import type { EngineProcess } from '../resources.ts';

/** The backend of this machine: a Backend that also manages engines and models. */
export interface LocalEngines extends Backend {
  /** Answers that an engine computes at the same time. */
  readonly slots: number;
  models(): Promise<readonly ModelRecord[]>;
  load(model: string, signal: AbortSignal, wishes?: LoadWishes): AsyncIterable<LoadEvent>;
  unload(model: string, whenIdle?: boolean): Promise<void>;
  loadedModels(): readonly LoadedModelHealth[];
  /** Loads after which the same models would be in memory. */
  loads(): readonly ModelLoad[];
  engineProcesses(): readonly EngineProcess[];
  /** Devices of this machine, as engines see them. */
  devices(): readonly DeviceRecord[];
  /** Totals since the daemon started. */
  engineCounts(): { readonly crashes: number; readonly restarts: number };
  engineStatus(): { readonly status: CheckStatus; readonly reason: string };
}
