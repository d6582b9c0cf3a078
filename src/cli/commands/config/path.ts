import { existsSync } from 'node:fs';
import { resolvePaths } from '../../../home/paths.ts';
import type { Run } from '../../commands.ts';
import { print, printJson } from '../../terminal/output.ts';

export const run: Run<'config path'> = ({ json }) => {
  const { configFile: path } = resolvePaths();
  if (json) printJson({ path, exists: existsSync(path) });
  else print(path);
  return Promise.resolve(0);
};
