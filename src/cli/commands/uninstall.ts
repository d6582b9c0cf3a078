/** `svc uninstall`: ends the daemon and its service, and removes what svc has put on this disk. */
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { ERRORS, SvcError } from '../../protocol/errors.ts';
import { removalOfProgram } from '../machine/installation.ts';
import { carryOut, planRemoval, type Left, type Removal } from '../machine/removal.ts';
import { removeServiceOf, serviceFilesOf } from '../machine/service.ts';
import { stopDaemon } from '../machine/stop-daemon.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { bytes } from '../terminal/format.ts';
import { table } from '../terminal/layout.ts';
import { askYesNo, out, say } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

/** Time for running generations. */
const DRAIN_MS = 30_000;

export const spec = {
  summary: 'Stop the daemon and remove everything that svc has put on this disk',
  detail: [
    'Removes the service, configuration, keys, state, logs, caches and the models in the store. Files that were added in their own place stay, and so does everything that svc did not make. Asks before it removes anything.',
  ],
  flags: {
    'dry-run': { kind: 'switch', summary: 'only list what would be removed, with sizes' },
    yes: { kind: 'switch', short: 'y', summary: 'do not ask' },
    'keep-models': { kind: 'switch', summary: 'keep the models in the store' },
    json: jsonFlag,
  },
  examples: ['svc uninstall --dry-run', 'svc uninstall', 'svc uninstall --yes --keep-models'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ 'dry-run': dryRun, yes, 'keep-models': keepModels, json }) => {
  const paths = resolvePaths();
  const plan = await planRemoval(paths, keepModels);
  const service = serviceFilesOf(paths);
  const program = removalOfProgram();
  const end = `To remove the program itself: ${program}`;
  if (dryRun) {
    const record = { dry_run: true, service, ...recordOf(plan), program, failed: [] };
    printResult(json, record, `${describe(plan, service)}\n\n${end}`);
    return 0;
  }
  if (!yes) await confirm(plan, service);
  const done = await removeAll(paths, keepModels);
  const removed = recordOf(done.plan);
  for (const { path, why } of done.failed) say(`cannot remove ${path}: ${why}`);
  for (const { path, why } of done.plan.left) if (!json) say(`left: ${path} (${why})`);
  const places = String(removed.items.length + service.length);
  const text = `removed ${bytes(removed.size_bytes)} in ${places} places\n${end}`;
  printResult(json, { dry_run: false, service, ...removed, program, failed: done.failed }, text);
  return done.failed.length === 0 ? 0 : ERRORS.CANNOT_WRITE.exit;
};

async function removeAll(paths: Paths, keepModels: boolean): Promise<{ plan: Removal; failed: Left[] }> {
  // The service first: its manager would start the daemon again.
  await removeServiceOf(paths);
  await stopDaemon(paths, { drainMs: DRAIN_MS });
  // What the daemon wrote at its end is removed, too.
  const plan = await planRemoval(paths, keepModels);
  return { plan, failed: await carryOut(plan) };
}

async function confirm(plan: Removal, service: readonly string[]): Promise<void> {
  const { size_bytes } = recordOf(plan);
  const question = `stop svc and remove this (${bytes(size_bytes)})?`;
  const agreed = await askYesNo(`${describe(plan, service)}\n\n${question}`);
  if (agreed === true) return;
  if (agreed === false) throw new SvcError('CANCELLED', 'nothing was removed');
  throw new SvcError('INVALID_REQUEST', `this removes ${bytes(size_bytes)}, with every model in the store`, {
    hint: 'see what: svc uninstall --dry-run; confirm it: svc uninstall --yes',
  });
}

function recordOf({ items, left }: Removal) {
  const size_bytes = items.reduce((sum, item) => sum + item.size_bytes, 0);
  return { items, left, size_bytes };
}

function describe(plan: Removal, service: readonly string[]): string {
  const { items, left, size_bytes } = recordOf(plan);
  const rows = [
    ...service.map((path) => ['service', '-', path]),
    ...items.map((item) => [item.what, bytes(item.size_bytes), item.path]),
  ];
  const stays = left.map(({ path, why }) => [path, why]);
  return [
    rows.length === 0 ? 'svc has nothing on this disk.' : table([['WHAT', 'SIZE', 'PATH'], ...rows], out.tableColumns),
    rows.length === 0 ? '' : `together: ${bytes(size_bytes)}`,
    stays.length === 0 ? '' : table([['STAYS', 'WHY'], ...stays], out.tableColumns),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}
