import { resolve } from 'node:path';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { given } from '../../../protocol/given.ts';
import { bytes } from '../../terminal/format.ts';
import { openStore } from '../../machine/models.ts';
import { printResult, sayProgress } from '../../terminal/output.ts';

export const spec = {
  summary: 'Check a GGUF file and register it as a model',
  detail: ['The file stays in its place unless --copy copies it into the store.'],
  arguments: [{ name: 'file', required: true, completes: 'file' }],
  flags: {
    name: { kind: 'string', value: 'ID', summary: 'model id; otherwise made from the file name' },
    copy: { kind: 'switch', summary: 'copy the file into the store' },
    projector: {
      kind: 'string',
      value: 'FILE',
      summary:
        'projector with which the model sees or hears, copied into the store; otherwise one beside the file is used',
      completes: 'file',
    },
    json: jsonFlag,
  },
  examples: ['svc model add ./qwen3-4b-q4_k_m.gguf', 'svc model add --copy --name qwen ./qwen3-4b-q4_k_m.gguf'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ name, copy, projector, json }, { file }) => {
  const onProgress = (done: number, total: number): void => {
    sayProgress(`reading ${file}: ${((done / total) * 100).toFixed(0)} %`);
  };
  const record = await openStore().add(resolve(file), {
    copy,
    onProgress,
    ...given({ name, projector: projector === undefined ? undefined : resolve(projector) }),
  });
  sayProgress('');
  const use = record.capabilities.includes('embedding')
    ? 'it makes embeddings: POST /v1/embeddings'
    : record.capabilities.includes('rerank')
      ? 'it ranks documents: POST /v1/rerank'
      : `try it: svc run -m ${record.id} "Hello"`;
  printResult(json, record, `added ${record.id} (${bytes(record.size_bytes)}); ${use}`);
};
