import { resolvePaths } from '../../../home/paths.ts';
import { serviceManager } from '../../../service/manager.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { facts } from '../../terminal/layout.ts';
import { out, say } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';
import { serviceFiles, textOf } from '../../machine/service.ts';

/** Exit code if the service is not running, as for `svc status`. */
const NOT_RUNNING = 3;

export const spec = {
  summary: 'Show whether the service is installed and running',
  flags: { json: jsonFlag },
  examples: ['svc service status', 'svc service status --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const manager = serviceManager();
  const files = serviceFiles(manager, resolvePaths());
  const installed = files.some(({ path }) => textOf(path) !== null);
  const current = files.every(({ path, text }) => textOf(path) === text);
  const state = installed ? await manager.state() : null;
  const record = {
    manager: manager.name,
    installed,
    /** True if installing again, with this version and these settings, would write the same files. */
    current: installed ? current : null,
    enabled: state?.enabled ?? null,
    active: state?.active ?? null,
    files: files.flatMap(({ path }) => (textOf(path) === null ? [] : [path])),
  };
  const word = (value: boolean | null): string => (value === null ? 'unknown' : value ? 'yes' : 'no');
  const rows: [string, string][] = [
    ['manager', record.manager],
    ['installed', word(installed)],
  ];
  if (installed) rows.push(['enabled', word(record.enabled)], ['active', word(record.active)]);
  for (const path of record.files) rows.push(['file', path]);
  printResult(json, record, facts(rows, out.tableColumns));
  if (installed && !current)
    say('it was installed by another version or with other settings: run `svc service install`');
  return state?.active === true ? 0 : NOT_RUNNING;
};
