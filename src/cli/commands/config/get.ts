import { resolvePaths } from '../../../home/paths.ts';
import { readSetting } from '../../../config/settings.ts';
import type { Run } from '../../commands.ts';
import { print, printJson } from '../../terminal/output.ts';
import { shown } from './value.ts';

export const run: Run<'config get'> = ({ json }, { setting: name }) => {
  const setting = readSetting(resolvePaths(), name);
  if (json) printJson(setting);
  else print(shown(setting.value));
  return Promise.resolve(0);
};
