/**
 * The model of an engine: a file, and the settings that it is loaded with. Names with the same file and the same
 * settings share one engine; others have engines of their own.
 */
import {
  LOAD_SETTINGS,
  loadSettingsOf,
  type Load,
  type LoadDefaults,
  type ModelSettings,
} from '../../protocol/model/settings.ts';
import type { ModelAdapter, ModelRecord } from '../../protocol/records.ts';

export interface EngineModel {
  /** Id of the installed model; if the engine has settings of its own, the name that it was first loaded by. */
  readonly id: string;
  readonly path: string;
  /** Trained, in tokens; null: unknown. */
  readonly context_length: number | null;
  readonly load: Load;
  /** Name of the draft model; null: none. */
  readonly draft: string | null;
  /** Path of the projector; null: none. */
  readonly projector: string | null;
  /** LoRA adapters that are loaded with it, for the requests that choose them. */
  readonly adapters: readonly ModelAdapter[];
  /** Equal for the models that share an engine. */
  readonly key: string;
}

export function engineModelOf(record: ModelRecord, defaults: LoadDefaults): EngineModel {
  const { path, context_length, settings = {} } = record;
  const { draft, ...load } = loadSettingsOf(settings, defaults);
  const id = hasOwnEngine(settings) ? record.id : (record.from ?? record.id);
  const projector = record.projector?.path ?? null;
  const adapters = (record.adapters ?? []).filter(({ error }) => error === undefined);
  const key = JSON.stringify([path, load, draft, projector, adapters]);
  return { id, path, context_length, load, draft, projector, adapters, key };
}

function hasOwnEngine(settings: ModelSettings): boolean {
  return LOAD_SETTINGS.some((name) => settings[name] !== undefined);
}
