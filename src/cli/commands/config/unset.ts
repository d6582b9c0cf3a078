import { resolvePaths } from '../../../home/paths.ts';
import { unsetSetting } from '../../../config/settings.ts';
import type { Run } from '../../commands.ts';
import { print, printJson } from '../../terminal/output.ts';
import { tellWhatHolds } from './effect.ts';

export const run: Run<'config unset'> = async ({ json }, { setting: name }) => {
  const paths = resolvePaths();
  const removed = await unsetSetting(paths, name);
  const effect = removed ? await tellWhatHolds(name) : { restart_needed: false };
  if (json) printJson({ name, removed, file: paths.configFile, ...effect });
  else print(removed ? `${name} is no longer in ${paths.configFile}` : `${name} was not in ${paths.configFile}`);
  return 0;
};
