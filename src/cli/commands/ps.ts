/** The models in memory: their health records, with device, placement and expiry from their model records. */
import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths } from '../../home/paths.ts';
import type { LoadedModel, LoadedModelHealth } from '../../protocol/records.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { bytes, count, duration, text } from '../terminal/format.ts';
import { out } from '../terminal/output.ts';
import { table } from '../terminal/layout.ts';
import { printResult } from '../terminal/result.ts';

type Process = LoadedModelHealth & Pick<LoadedModel, 'placement' | 'expires_at'> & { readonly device: string | null };

export const spec = {
  summary: 'Show the models in memory and their requests',
  flags: { json: jsonFlag },
  examples: ['svc ps', 'svc ps --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const client = new ControlClient(resolvePaths().socketPath);
  const [health, records] = await Promise.all([client.health(), client.models()]);
  const models = health.models.map((model): Process => {
    const loaded = records.find(({ id }) => id === model.id)?.loaded;
    const { device = null, placement = null, expires_at = null } = loaded ?? {};
    return { ...model, device, placement, expires_at };
  });
  printResult(json, { models }, models.length === 0 ? 'no model is in memory' : describe(models));
};

function describe(models: readonly Process[]): string {
  const rows = models.map((model) => [
    model.id,
    model.state,
    bytes(model.rss_bytes),
    count(model.context_length),
    model.expires_at === null ? 'never' : `in ${duration((Date.parse(model.expires_at) - Date.now()) / 1000)}`,
    String(model.active),
    String(model.waiting),
    model.tokens_per_second === null ? text(null) : model.tokens_per_second.toFixed(1),
    text(model.device),
    model.kv_cells_total === null ? text(null) : `${count(model.kv_cells_used)}/${count(model.kv_cells_total)}`,
    text(model.pid === null ? null : String(model.pid)),
  ]);
  const titles = ['MODEL', 'STATE', 'MEMORY', 'CONTEXT', 'EXPIRES', 'ACTIVE', 'WAITING', 'TOKENS/S', 'DEVICE', 'CELLS'];
  return table([[...titles, 'PID'], ...rows], out.tableColumns);
}
