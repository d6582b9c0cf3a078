import { resolvePaths } from '../../../home/paths.ts';
import { listSettings } from '../../../config/settings.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { table } from '../../terminal/layout.ts';
import { out } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';
import { shown } from './value.ts';

/** Settings whose value svc finds itself where it is not set. */
const AUTOMATIC: ReadonlySet<string> = new Set([
  'models.dir',
  'models.memory_budget_bytes',
  'engine.context_length',
  'engine.threads',
  'engine.prompt_threads',
  'engine.gpu_layers',
  'engine.main_gpu',
  'engine.tensor_split',
  'engine.cpu_experts',
  'engine.cache_type',
  'engine.max_sequences',
  'engine.prefix_disk_bytes',
  'cloud.default_provider',
]);

export const spec = {
  summary: 'Show every setting',
  flags: { origin: { kind: 'switch', summary: 'also show where each value comes from' }, json: jsonFlag },
  examples: ['svc config show', 'svc config show --origin', 'svc config show --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ origin, json }) => {
  const { configFile } = resolvePaths();
  const settings = listSettings({ configFile });
  const rows = settings.map((setting) => [
    setting.name,
    setting.value === null ? (AUTOMATIC.has(setting.name) ? '(automatic)' : '(none)') : shown(setting.value),
    ...(origin ? [setting.at ?? setting.origin] : []),
  ]);
  const titles = ['SETTING', 'VALUE', ...(origin ? ['ORIGIN'] : [])];
  printResult(json, { file: configFile, settings }, table([titles, ...rows], out.tableColumns));
};
