import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { bytes, count, short, table, text } from '../../terminal/format.ts';
import { listModels } from '../../machine/models.ts';
import { printResult } from '../../terminal/output.ts';

export const spec = {
  summary: 'List the models on this machine',
  flags: { json: jsonFlag },
  examples: ['svc model list', 'svc model list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const models = await listModels();
  const rows = models.map((model) => [
    model.default ? `${model.id} (default)` : model.id,
    text(model.architecture),
    short(model.parameters),
    text(model.quantization),
    bytes(model.size_bytes),
    count(model.loaded?.context_length ?? model.context_length),
    model.state,
  ]);
  const titles = ['MODEL', 'ARCHITECTURE', 'PARAMETERS', 'QUANTIZATION', 'SIZE', 'CONTEXT', 'STATE'];
  printResult(json, { models }, table([titles, ...rows]));
};
