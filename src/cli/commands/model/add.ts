import { resolve } from 'node:path';
import type { Run } from '../../commands.ts';
import { bytes } from '../../terminal/format.ts';
import { openStore } from '../../machine/models.ts';
import { print, printJson, sayProgress } from '../../terminal/output.ts';

export const run: Run<'model add'> = async ({ name, copy, json }, { file }) => {
  const onProgress = (done: number, total: number): void => {
    sayProgress(`reading ${file}: ${((done / total) * 100).toFixed(0)} %`);
  };
  const record = await openStore().add(resolve(file), { copy, onProgress, ...(name === undefined ? {} : { name }) });
  sayProgress('');
  if (json) printJson(record);
  else {
    const use = record.capabilities.includes('embedding')
      ? 'it makes embeddings: POST /v1/embeddings'
      : `try it: svc run -m ${record.id} "Hello"`;
    print(`added ${record.id} (${bytes(record.size_bytes)}); ${use}`);
  }
  return 0;
};
