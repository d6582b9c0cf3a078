import type { Run } from '../../commands.ts';
import { bytes } from '../../terminal/format.ts';
import { print } from '../../terminal/output.ts';
import { pullModel } from '../../machine/pull.ts';

export const run: Run<'model pull'> = async ({ sha256, json }, { model }) => {
  const { id, size_bytes } = await pullModel({ model, json, ...(sha256 === undefined ? {} : { sha256 }) });
  if (!json) print(`pulled ${id} (${bytes(size_bytes)}); try it: svc run -m ${id} "Hello"`);
  return 0;
};
