import { readKeyFile } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { KeyRecord } from '../../../protocol/keys.ts';
import type { Run } from '../../commands.ts';
import { table } from '../../terminal/format.ts';
import { print, printJson } from '../../terminal/output.ts';

export const run: Run<'key list'> = ({ json }) => {
  const keys = readKeyFile(resolvePaths().keyFile).map(({ name, scope, created_at }): KeyRecord => ({
    name,
    scope,
    created_at,
  }));
  if (json) printJson({ keys });
  else print(table([['NAME', 'SCOPE', 'CREATED'], ...keys.map((key) => [key.name, key.scope, key.created_at])]));
  return Promise.resolve(0);
};
