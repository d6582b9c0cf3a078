import type { ModelRecord } from '../../protocol/records.ts';
import type { Run } from '../commands.ts';
import { bytes, count, facts, short, text } from '../format.ts';
import { findModel } from '../models.ts';
import { print, printJson } from '../output.ts';

export const run: Run<'model show'> = async ({ json }, { model }) => {
  const record = await findModel(model);
  if (json) printJson(record);
  else print(describe(record));
  return 0;
};

function describe(model: ModelRecord): string {
  const { loaded } = model;
  const rows: [string, string][] = [
    ['id', model.default ? `${model.id} (default)` : model.id],
    ['aliases', model.aliases.join(', ') || '-'],
    ['source', model.source],
    ['path', model.path],
    ['digest', text(model.digest)],
    ['size', bytes(model.size_bytes)],
    ['architecture', text(model.architecture)],
    ['parameters', short(model.parameters)],
    ['quantization', text(model.quantization)],
    ['context', count(model.context_length)],
    ['capabilities', model.capabilities.join(', ') || '-'],
    ['license', text(model.license)],
    ['modified', model.modified_at],
    ['state', model.state],
  ];
  if (loaded !== null) {
    rows.push(
      ['pid', String(loaded.pid)],
      ['device', loaded.device],
      ['loaded context', count(loaded.context_length)],
      ['memory', bytes(loaded.memory_bytes)],
    );
  }
  return facts(rows);
}
