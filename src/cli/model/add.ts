import { resolve } from 'node:path';
import type { Run } from '../commands.ts';
import { bytes } from '../format.ts';
import { openStore } from '../models.ts';
import { print, printJson } from '../output.ts';

export const run: Run<'model add'> = async ({ name, copy, json }, { file }) => {
  const record = await openStore().add(resolve(file), { copy, ...(name === undefined ? {} : { name }) });
  if (json) printJson(record);
  else print(`added ${record.id} (${bytes(record.size_bytes)}); try it: svc run -m ${record.id} "Hello"`);
  return 0;
};
