/** Names that the config gives to models: `models.NAME`. A running daemon applies a change at once. */
import { changeConfig } from '../../config/settings.ts';
import { resolvePaths } from '../../home/paths.ts';
import { nameIn, type ModelSettings } from '../../protocol/model/settings.ts';
import { configuredNames } from './models.ts';
import { reload } from './reload.ts';

/** Replaces the settings of a name. */
export async function setName(name: string, settings: ModelSettings): Promise<void> {
  const known = nameIn(configuredNames(), name) ?? name;
  await changeConfig(resolvePaths(), [
    { path: ['models', known], value: undefined },
    { path: ['models', name], value: settings },
  ]);
  await reload();
}

export async function removeName(name: string): Promise<void> {
  await changeConfig(resolvePaths(), [{ path: ['models', name], value: undefined }]);
  await reload();
}
