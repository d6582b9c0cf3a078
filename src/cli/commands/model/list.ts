import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { bytes, count, short, text } from '../../terminal/format.ts';
import { out } from '../../terminal/output.ts';
import { table } from '../../terminal/layout.ts';
import { listModels } from '../../machine/models.ts';
import { printResult } from '../../terminal/result.ts';

export const spec = {
  summary: 'List the models on this machine',
  flags: { json: jsonFlag },
  examples: ['svc model list', 'svc model list --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const models = await listModels();
  const rows = models.map((model) => [
    model.default ? `${model.id} (default)` : model.id,
    model.state,
    bytes(model.size_bytes),
    count(model.loaded?.context_length ?? model.context_length),
    short(model.parameters),
    text(model.quantization),
    text(model.architecture),
  ]);
  const titles = ['MODEL', 'STATE', 'SIZE', 'CONTEXT', 'PARAMETERS', 'QUANTIZATION', 'ARCHITECTURE'];
  printResult(json, { models }, table([titles, ...rows], out.tableColumns));
};
