import { SHELLS } from './completion/shells.ts';
import type { Run } from '../commands.ts';
import { print } from '../terminal/output.ts';

export const run: Run<'completion'> = (_flags, { shell }) => {
  print(SHELLS[shell]().trimEnd());
  return Promise.resolve(0);
};
