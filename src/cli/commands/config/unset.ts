import { resolvePaths } from '../../../home/paths.ts';
import { unsetSetting } from '../../../config/settings.ts';
import { jsonFlag, settingArgument, type Run, type Spec } from '../../spec.ts';
import { print, printJson } from '../../terminal/output.ts';
import { tellWhatHolds } from './effect.ts';

export const spec = {
  summary: 'Remove a setting from the config file, so that its default applies',
  arguments: [settingArgument],
  flags: { json: jsonFlag },
  examples: ['svc config unset http.port'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { setting: name }) => {
  const paths = resolvePaths();
  const removed = await unsetSetting(paths, name);
  const effect = removed ? await tellWhatHolds(name) : { restart_needed: false };
  if (json) printJson({ name, removed, file: paths.configFile, ...effect });
  else print(removed ? `${name} is no longer in ${paths.configFile}` : `${name} was not in ${paths.configFile}`);
  return 0;
};
