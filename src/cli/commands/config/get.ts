import { resolvePaths } from '../../../home/paths.ts';
import { readSetting } from '../../../config/settings.ts';
import { jsonFlag, settingArgument, type Run, type Spec } from '../../spec.ts';
import { printValue } from '../../terminal/result.ts';
import { shown } from './value.ts';

export const spec = {
  summary: 'Print the value of a setting',
  arguments: [settingArgument],
  flags: { json: jsonFlag },
  examples: ['svc config get http.port', 'svc config get engine.threads --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }, { setting: name }) => {
  const setting = readSetting(resolvePaths(), name);
  printValue(json, setting, shown(setting.value));
};
