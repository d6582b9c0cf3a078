/** Every part is looked at, whatever the others say; what depends on a broken one is skipped. */
import { resolvePaths, type Paths } from '../config/paths.ts';
import type { DoctorCheck, DoctorRecord } from '../protocol/records.ts';
import type { Run } from './commands.ts';
import { failed } from './doctor/check.ts';
import { checkConfig, checkDaemon, checkHttpAddress, checkLog, checkSocket } from './doctor/daemon-checks.ts';
import { checkEngine } from './doctor/engine-checks.ts';
import { checkDisk, checkMemory, checkNode } from './doctor/machine-checks.ts';
import { checkModels } from './doctor/model-checks.ts';
import { storeDirectory } from './models.ts';
import { out, print, printJson, sayProgress } from './output.ts';

export const run: Run<'doctor'> = async ({ json }) => {
  const checks = await examine();
  sayProgress('');
  const record: DoctorRecord = { ok: checks.every((each) => each.status !== 'fail'), checks };
  if (json) printJson(record);
  else print(describe(record));
  return record.ok ? 0 : 1;
};

async function examine(): Promise<DoctorCheck[]> {
  sayProgress('running a kernel on each device');
  // First and alone: what else runs would slow the kernels down.
  const engine = await checkEngine();
  const machine = [checkNode(), ...engine, checkMemory()];
  let paths: Paths;
  try {
    paths = resolvePaths();
  } catch (error) {
    return [...machine, failed('paths', error)];
  }
  const { check: configCheck, config } = checkConfig(paths);
  const { check: daemonCheck, status, serves } = await checkDaemon(paths);
  const http = await checkHttpAddress(status, config);
  const rest = [checkSocket(paths), daemonCheck, http, checkLog(paths)];
  if (config === undefined) return [...machine, configCheck, ...rest];
  sayProgress('asking the default model for a token');
  return [...machine, checkDisk(storeDirectory()), configCheck, ...rest, ...(await checkModels(paths, serves))];
}

function describe({ ok, checks }: DoctorRecord): string {
  const nameWidth = Math.max(...checks.map((each) => each.name.length));
  const lines = checks.flatMap((each) => {
    const indent = ' '.repeat(nameWidth + 8);
    const [first, ...more] = [each.value, each.detail].filter((part) => part !== null);
    return [
      `${mark(each.status)}  ${each.name.padEnd(nameWidth)}  ${first ?? ''}`.trimEnd(),
      ...more.map((part) => indent + out.dim(part)),
      ...(each.hint === null ? [] : [`${indent}hint: ${each.hint}`]),
    ];
  });
  const count = checks.filter((each) => each.status === 'fail').length;
  const verdict = ok
    ? out.green('svc can work here.')
    : out.red(`${String(count)} of ${String(checks.length)} checks failed.`);
  return [...lines, '', verdict].join('\n');
}

function mark(status: DoctorCheck['status']): string {
  return { ok: out.green, warn: out.yellow, fail: out.red, skip: out.dim }[status](status.padEnd(4));
}
