import { existsSync } from 'node:fs';
import { resolvePaths } from '../../../home/paths.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { printValue } from '../../terminal/result.ts';

export const spec = {
  summary: 'Print the path of the config file',
  flags: { json: jsonFlag },
  examples: ['svc config path', 'svc config path --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }) => {
  const { configFile: path } = resolvePaths();
  printValue(json, { path, exists: existsSync(path) }, path);
};
