import type { Run } from '../../commands.ts';
import { bytes, count, short, table, text } from '../../terminal/format.ts';
import { listModels } from '../../machine/models.ts';
import { print, printJson } from '../../terminal/output.ts';

export const run: Run<'model list'> = async ({ json }) => {
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
    count(model.context_length),
    model.state,
  ]);
  print(table([['MODEL', 'ARCHITECTURE', 'PARAMETERS', 'QUANTIZATION', 'SIZE', 'CONTEXT', 'STATE'], ...rows]));
  return 0;
};
