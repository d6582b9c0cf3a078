import { resolvePaths } from '../../../home/paths.ts';
import { setSetting } from '../../../config/settings.ts';
import type { Run } from '../../commands.ts';
import { print, printJson } from '../../terminal/output.ts';
import { tellWhatHolds } from './effect.ts';
import { shown } from './value.ts';

export const run: Run<'config set'> = async ({ json }, { setting: name, value: typed }) => {
  const paths = resolvePaths();
  const value = await setSetting(paths, name, typed);
  const effect = await tellWhatHolds(name);
  if (json) printJson({ name, value, file: paths.configFile, ...effect });
  else print(`${name} is ${shown(value)} in ${paths.configFile}`);
  return 0;
};
