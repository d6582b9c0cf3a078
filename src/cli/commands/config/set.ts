import { resolvePaths } from '../../../home/paths.ts';
import { setSetting } from '../../../config/settings.ts';
import { refuseOllamas } from '../../../models/store/registry.ts';
import { jsonFlag, settingArgument, type Run, type Spec } from '../../spec.ts';
import { printResult } from '../../terminal/result.ts';
import { tellWhatHolds } from './effect.ts';
import { shown } from './value.ts';

export const spec = {
  summary: 'Write a setting to the config file',
  detail: ['The value is checked before anything is written; comments in the file are kept.'],
  arguments: [settingArgument, { name: 'value', required: true }],
  flags: { json: jsonFlag },
  examples: [
    'svc config set http.port 8000',
    'svc config set log.level debug',
    'svc config set models.dir /srv/models',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }, { setting: name, value: typed }) => {
  const paths = resolvePaths();
  if (name === 'models.dir') await refuseOllamas(typed, 'INVALID_REQUEST');
  const value = await setSetting(paths, name, typed);
  const effect = await tellWhatHolds(name);
  const { configFile: file } = paths;
  printResult(json, { name, value, file, ...effect }, `${name} is ${shown(value)} in ${file}`);
};
