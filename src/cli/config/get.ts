import { resolvePaths } from '../../config/paths.ts';
import { checkSettingName, listSettings } from '../../config/settings.ts';
import type { Run } from '../commands.ts';
import { print, printJson } from '../output.ts';
import { shown } from './value.ts';

export const run: Run<'config get'> = ({ json }, { setting: name }) => {
  checkSettingName(name);
  const setting = listSettings(resolvePaths()).find((each) => each.name === name);
  if (json) printJson(setting);
  else print(shown(setting?.value));
  return Promise.resolve(0);
};
