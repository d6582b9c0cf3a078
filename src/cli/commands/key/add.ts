import { addKey } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { Run } from '../../commands.ts';
import { print, printJson, say } from '../../terminal/output.ts';

export const run: Run<'key add'> = async ({ scope, json }, { name }) => {
  const { entry, key } = await addKey(resolvePaths().keyFile, name, scope);
  if (json) {
    printJson({ name: entry.name, scope: entry.scope, created_at: entry.created_at, key });
    return 0;
  }
  say(`created key ${entry.name}, scope ${entry.scope}; it is shown only once`);
  print(key);
  return 0;
};
