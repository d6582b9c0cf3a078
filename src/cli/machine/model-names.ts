/** Names that the config gives to models: `models.NAME`. A running daemon applies a change at once. */
import { changeConfig } from '../../config/settings.ts';
import { resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import { nameIn, type ModelSettings } from '../../protocol/model/settings.ts';
import { configuredNames, fromDaemon } from './models.ts';
import { say } from '../terminal/output.ts';

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

/** Makes a running daemon read the config, and the models, again; says so if it cannot use it. */
export async function reload(): Promise<void> {
  try {
    await fromDaemon((client) => client.reload());
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    say(`the daemon has not applied the change: ${error.message}`);
  }
}
