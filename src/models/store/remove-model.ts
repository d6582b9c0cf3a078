/** Removing an installed model with everything that belongs to it alone: its engine, its files, its saved prefixes. */
import type { ModelRecord } from '../../protocol/records.ts';
import { removable } from './lookup.ts';
import { removePrefixes } from './prefixes.ts';
import type { ModelStore } from './store.ts';

export interface RemoveOptions {
  readonly store: Pick<ModelStore, 'registry' | 'remove'>;
  /** All models of this machine. */
  readonly models: readonly ModelRecord[];
  /** Ids of the models by which engines were loaded. */
  readonly loaded: readonly string[];
  /** Folder of the saved prefixes. */
  readonly prefixes: string;
  /** Unloads the model with this id. Throws BUSY while it is in use. */
  unload(id: string): Promise<void>;
}

/** True if another of the installed `models` has the same file, which is then not deleted. */
export function sharesFile({ id, path }: ModelRecord, models: readonly ModelRecord[]): boolean {
  return models.some((each) => each.id !== id && each.from === undefined && each.path === path);
}

/**
 * Unloads and removes a model. If another model has the same file, the prefixes are left to that one, and so is the
 * engine, unless it was loaded by the id of this model. A model that cannot be removed is not unloaded.
 * @throws SvcError as ModelStore.remove, and errors of `unload`; the model is then still there
 */
export async function removeModel(
  record: ModelRecord,
  { store, models, loaded, prefixes, unload }: RemoveOptions,
): Promise<void> {
  const { id } = record;
  removable(id, await store.registry.read());
  const fileStays = sharesFile(record, models);
  // An engine by the id of a removed model could not be loaded again by `svc restart`.
  if (loaded.includes(id) || (record.loaded !== null && !fileStays)) await unload(id);
  await store.remove(id);
  if (!fileStays) await removePrefixes(prefixes, record.path);
}
