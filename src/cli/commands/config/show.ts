import { resolvePaths } from '../../../home/paths.ts';
import { listSettings } from '../../../config/settings.ts';
import type { Run } from '../../commands.ts';
import { table } from '../../terminal/format.ts';
import { print, printJson } from '../../terminal/output.ts';
import { shown } from './value.ts';

export const run: Run<'config show'> = ({ origin, json }) => {
  const { configFile } = resolvePaths();
  const settings = listSettings({ configFile });
  if (json) {
    printJson({ file: configFile, settings });
    return Promise.resolve(0);
  }
  const rows = settings.map((setting) => [
    setting.name,
    shown(setting.value),
    ...(origin ? [setting.at ?? setting.origin] : []),
  ]);
  print(table([['SETTING', 'VALUE', ...(origin ? ['ORIGIN'] : [])], ...rows]));
  return Promise.resolve(0);
};
