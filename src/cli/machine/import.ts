/** Imports the models of other programs for the user who runs the command, and shows how far it is. */
import { homedir } from 'node:os';
import { changeConfig } from '../../config/settings.ts';
import { resolvePaths } from '../../home/paths.ts';
import { importModels } from '../../models/import/import.ts';
import { variable } from '../../process/environment.ts';
import type { ImportRecord, Program } from '../../protocol/model/import.ts';
import { ByteProgress } from '../terminal/byte-progress.ts';
import { sayProgress } from '../terminal/output.ts';
import { configuredNames, openStore } from './models.ts';
import { reload } from './reload.ts';

export async function importHere(programs: readonly Program[], isDry: boolean): Promise<ImportRecord> {
  const bar = new ByteProgress('reading');
  const record = await importModels({
    programs,
    surroundings: { platform: process.platform, home: homedir(), variable },
    isDry,
    registry: openStore().registry,
    names: configuredNames(),
    setName: async (name, settings) => {
      await changeConfig(resolvePaths(), [{ path: ['models', name], value: settings }]);
    },
    emit: (event) => {
      if (event.type === 'looking') sayProgress(`looking in ${event.path}`);
      else bar.show(event);
    },
  });
  sayProgress('');
  if (record.models.some(({ state }) => state === 'imported' || state === 'named')) await reload();
  return record;
}
