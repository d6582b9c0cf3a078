import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { bytes, count, short, table, text } from '../../terminal/format.ts';
import { listModels } from '../../machine/models.ts';
import { print, printJson } from '../../terminal/output.ts';

export const spec = {
  summary: 'List the models on this machine',
  arguments: [],
  flags: { json: jsonFlag },
  examples: ['svc model list', 'svc model list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const models = await listModels();
  if (json) {
    printJson({ models });
    return 0;
  }
  const rows = models.map((model) => [
    model.default ? `${model.id} (default)` : model.id,
    text(model.architecture),
    short(model.parameters),
    text(model.quantization),
    bytes(model.size_bytes),
    count(model.loaded?.context_length ?? model.context_length),
    model.state,
  ]);
  print(table([['MODEL', 'ARCHITECTURE', 'PARAMETERS', 'QUANTIZATION', 'SIZE', 'CONTEXT', 'STATE'], ...rows]));
  return 0;
};
