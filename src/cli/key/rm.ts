import { removeKey } from '../../config/key-file.ts';
import { resolvePaths } from '../../config/paths.ts';
import type { Run } from '../commands.ts';
import { print, printJson, say } from '../output.ts';

export const run: Run<'key rm'> = async ({ json }, { name }) => {
  const left = await removeKey(resolvePaths().keyFile, name);
  if (json) printJson({ removed: name });
  else print(`removed ${name}; whoever holds it is refused from now on`);
  if (left === 0) say('there is no key any more: programs on this machine need none, others cannot connect');
  return 0;
};
