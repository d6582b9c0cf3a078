/**
 * Models, from the daemon or, without one, from the store. The store is a directory of files; a daemon sees the
 * changes of a command when it next reads them.
 */
import { join } from 'node:path';
import { ControlClient } from '../../client/control-client.ts';
import { loadConfig } from '../../config/config.ts';
import { modelNamesIn } from '../../config/model-settings.ts';
import { ENGINE_VERSION } from '../../config/version.ts';
import { capabilitiesFile, resolvePaths, type Paths } from '../../home/paths.ts';
import { builtinModelPath } from '../../models/store/builtin.ts';
import { NamedModels } from '../../models/store/named-models.ts';
import { ModelStore } from '../../models/store/store.ts';
import { SvcError } from '../../protocol/errors.ts';
import { furtherNames, type ModelNames } from '../../protocol/model/settings.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { modelName } from './model-name.ts';

export function storeDirectory(): string {
  const paths = resolvePaths();
  return loadConfig(paths).models.dir ?? paths.modelsDir;
}

/** Folder of partial downloads. */
export function downloadsDirectory(): string {
  return join(resolvePaths().cacheDir, 'downloads');
}

export function openStore(): ModelStore {
  return storeIn(storeDirectory(), resolvePaths(), () => furtherNames(configuredNames()));
}

/** `reserved`: returns names that the config gives to models, for which no further model may be added. */
export function storeIn(dir: string, paths: Paths, reserved: () => readonly string[] = () => []): ModelStore {
  const tried = { path: capabilitiesFile(paths), version: ENGINE_VERSION };
  return new ModelStore({ dir, builtinPath: builtinModelPath(), tried, reserved });
}

/** The models in `store`, also under the names of the config. */
export function named(store: ModelStore, names: ModelNames = configuredNames()): NamedModels {
  return new NamedModels({ store, names });
}

/** Names that the config gives to models. */
export function configuredNames(): ModelNames {
  return modelNamesIn(loadConfig(resolvePaths()).models);
}

export async function listModels(): Promise<readonly ModelRecord[]> {
  return (await fromDaemon((client) => client.models())) ?? (await named(openStore()).list());
}

/**
 * Finds a model by path, or by any name that a request may use. A registered model is found even if its file is broken.
 * Returns the record of the daemon if it runs: only that one says whether the model is loaded.
 */
export async function findModel(typed: string): Promise<ModelRecord> {
  const name = modelName(typed);
  const running = (await fromDaemon((client) => client.models())) ?? [];
  try {
    const { record } = await named(openStore()).look(name);
    return running.find(({ id }) => id === record.id) ?? record;
  } catch (error) {
    // A daemon that was started with other settings may have another store.
    const known = running.find(({ id, aliases }) => id === name || aliases.includes(name));
    if (known === undefined) throw error;
    return known;
  }
}

/** Returns undefined if no daemon is running. */
export async function fromDaemon<Answer>(ask: (client: ControlClient) => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask(new ControlClient(resolvePaths().socketPath));
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING') return undefined;
    throw error;
  }
}
