import { resolve } from 'node:path';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { given } from '../../../protocol/given.ts';
import { invalid } from '../../../protocol/validate.ts';
import { addAdapter } from '../../machine/adapters.ts';
import { reload } from '../../machine/reload.ts';
import { bytes } from '../../terminal/format.ts';
import { openStore } from '../../machine/models.ts';
import { sayProgress } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'Check a GGUF file and register it as a model',
  detail: [
    'The file stays in its place unless --copy copies it into the store. With --adapter-of the file is a LoRA adapter of an installed model, and is always copied.',
  ],
  arguments: [{ name: 'file', required: true, completes: 'file' }],
  flags: {
    name: { kind: 'string', value: 'ID', summary: 'id of the model or adapter; otherwise made from the file name' },
    copy: { kind: 'switch', summary: 'copy the file into the store' },
    projector: {
      kind: 'string',
      value: 'FILE',
      summary:
        'projector with which the model sees or hears, copied into the store; otherwise one beside the file is used',
      completes: 'file',
    },
    'adapter-of': {
      kind: 'string',
      value: 'MODEL',
      summary: 'register the file as a LoRA adapter of this model',
      completes: 'model',
    },
    json: jsonFlag,
  },
  examples: [
    'svc model add ./qwen3-4b-q4_k_m.gguf',
    'svc model add --copy --name qwen ./qwen3-4b-q4_k_m.gguf',
    'svc model add --adapter-of qwen --name legal ./legal-lora-f16.gguf',
  ],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ name, copy, projector, 'adapter-of': base, json }, { file }) => {
  if (base !== undefined) {
    if (projector !== undefined) throw invalid('projector', 'is for models, not for adapters');
    const adapter = await addAdapter(base, resolve(file), name);
    const { id, model, size_bytes } = adapter;
    const use = `try it: svc run -m ${model} --lora ${id} "Hello"`;
    printResult(json, adapter, `added the adapter ${id} of ${model} (${bytes(size_bytes)}); ${use}`);
    return;
  }
  const onProgress = (done: number, total: number): void => {
    sayProgress(`reading ${file}: ${((done / total) * 100).toFixed(0)} %`);
  };
  const record = await openStore().add(resolve(file), {
    copy,
    onProgress,
    ...given({ name, projector: projector === undefined ? undefined : resolve(projector) }),
  });
  sayProgress('');
  // A running daemon may have loaded the model without it.
  if (projector !== undefined) await reload();
  const use = record.capabilities.includes('embedding')
    ? 'it makes embeddings: POST /v1/embeddings'
    : record.capabilities.includes('rerank')
      ? 'it ranks documents: POST /v1/rerank'
      : `try it: svc run -m ${record.id} "Hello"`;
  printResult(json, record, `added ${record.id} (${bytes(record.size_bytes)}); ${use}`);
};
