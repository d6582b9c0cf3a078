import { resolvePaths } from '../../../home/paths.ts';
import { unsetSetting } from '../../../config/settings.ts';
import { jsonFlag, settingArgument, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';
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
  const { configFile: file } = paths;
  printResult(json, { name, removed, file, ...effect }, `${name} ${removed ? 'is no longer' : 'was not'} in ${file}`);
};
