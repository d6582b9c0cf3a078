/**
 * The model of an engine: a file, and the settings that it is loaded with. Names with the same file and the same
 * settings share one engine; others have engines of their own.
 */
import { LOAD_SETTINGS, type ModelSettings } from '../../protocol/model/settings.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { NativeLoadOptions } from '../../engine/addon.ts';
import { given } from '../../protocol/given.ts';

/** Settings of the config's section `engine` that a name may override. */
export interface EngineDefaults {
  readonly context_length?: number;
  readonly cache_type?: NativeLoadOptions['cache_type'];
  readonly gpu_layers?: number;
  readonly draft_model?: string | null;
}

export interface EngineModel {
  /** Of the installed model or, if the engine has settings of its own, of the name that it was first loaded by. */
  readonly id: string;
  readonly path: string;
  /** Trained, in tokens; null: unknown. */
  readonly context_length: number | null;
  readonly load: Pick<NativeLoadOptions, 'context_length' | 'cache_type' | 'gpu_layers'>;
  /** Name of the draft model; null: none. */
  readonly draft: string | null;
  /** As in the model's record. */
  readonly projector?: NonNullable<ModelRecord['projector']>;
  /** Equal for the models that share an engine. */
  readonly key: string;
}

export function engineModelOf(record: ModelRecord, defaults: EngineDefaults): EngineModel {
  const { path, context_length: trained, settings = {} } = record;
  const { cache_type = defaults.cache_type, gpu_layers = defaults.gpu_layers } = settings;
  const context_length = settings.context_length ?? defaults.context_length;
  const draft = settings.draft === undefined ? (defaults.draft_model ?? null) : settings.draft;
  const load = given({ context_length, cache_type, gpu_layers });
  const id = hasOwnEngine(settings) ? record.id : (record.from ?? record.id);
  const { projector } = record;
  const key = JSON.stringify([path, load, draft, projector?.path]);
  return { id, path, context_length: trained, load, draft, ...given({ projector }), key };
}

function hasOwnEngine(settings: ModelSettings): boolean {
  return LOAD_SETTINGS.some((name) => settings[name] !== undefined);
}
