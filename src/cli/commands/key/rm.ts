import { removeKey } from '../../../home/key-file.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { Run } from '../../commands.ts';
import { print, printJson, say } from '../../terminal/output.ts';

export const run: Run<'key rm'> = async ({ json }, { name }) => {
  const left = await removeKey(resolvePaths().keyFile, name);
  if (json) printJson({ removed: name });
  else print(`removed ${name}; requests with this key are refused from now on`);
  if (left === 0) say('no key is left: programs on this machine need none, other machines cannot connect');
  return 0;
};
