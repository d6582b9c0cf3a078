/** `svc doctor`: every check runs whatever the results of the others; one that depends on a broken part is skipped. */
import { modelNamesIn } from '../../config/model-settings.ts';
import { readKeyFile } from '../../home/key-file.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import type { DoctorCheck, DoctorRecord } from '../../protocol/doctor.ts';
import type { ProviderRecord } from '../../protocol/records.ts';
import { ProviderKeys } from '../../providers/provider-keys.ts';
import { providersInUse, recordOf } from '../../providers/providers.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { failed, guarded } from './doctor/check.ts';
import { checkClock } from './doctor/clock-check.ts';
import {
  checkAddress,
  checkConfig,
  checkDaemon,
  checkGrpc,
  checkLog,
  checkPaths,
  checkSocket,
} from './doctor/daemon-checks.ts';
import { checkEngine } from './doctor/engine-checks.ts';
import { checkDisk, checkMemory, checkNode, checkUser } from './doctor/machine-checks.ts';
import { checkModels } from './doctor/model-checks.ts';
import { checkApiKeys, checkProviders } from './doctor/provider-check.ts';
import { checkSandbox } from './doctor/sandbox-check.ts';
import { definitions } from '../terminal/layout.ts';
import { out, sayProgress } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Check everything svc needs, and run a real kernel on every device',
  detail: ['Works with and without a daemon.'],
  flags: { offline: { kind: 'switch', summary: 'do not contact the providers' }, json: jsonFlag },
  examples: ['svc doctor', 'svc doctor --offline --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json, offline }) => {
  const checks = await examine(offline);
  sayProgress('');
  const record: DoctorRecord = { ok: checks.every((each) => each.status !== 'fail'), checks };
  printResult(json, record, describe(record));
  return record.ok ? 0 : 1;
};

async function examine(offline: boolean): Promise<DoctorCheck[]> {
  sayProgress('running a kernel on each device');
  // First and alone: other work would slow the measured kernels down.
  const engine = await checkEngine();
  const sandbox = await checkSandbox({ engineWorks: engine.works });
  const machine = [checkNode(), checkUser(), ...engine.checks, sandbox, checkMemory()];
  let paths: Paths;
  try {
    paths = resolvePaths();
  } catch (error) {
    return [...machine, failed('paths', error)];
  }
  const { check: configCheck, config } = checkConfig(paths);
  const modelsDir = config.models.dir ?? paths.modelsDir;
  const daemon = await checkDaemon(paths);
  const files = [
    await guarded('paths', () => checkPaths(paths, modelsDir)),
    await guarded('disk', () => checkDisk(modelsDir, paths)),
    configCheck,
    await guarded('http', () => checkAddress('http', config, daemon)),
    await guarded('grpc', () => checkGrpc(config, daemon)),
    await guarded('control_socket', () => checkSocket(paths)),
    daemon.check,
    await guarded('log', () => checkLog(paths)),
    await guarded('clock', () => checkClock(paths)),
  ];
  sayProgress('asking the default model for a token');
  const models = await checkModels(paths, {
    modelsDir,
    names: modelNamesIn(config.models),
    engine: config.engine,
    daemonServes: daemon.serves,
    engineWorks: engine.works,
  });
  sayProgress('asking the providers');
  // Without a daemon, those that one started from here would have.
  const known = (): readonly ProviderRecord[] =>
    daemon.runs ? daemon.providers : providersInUse(config, new ProviderKeys(paths.credentialsFile)).map(recordOf);
  const providers = await guarded('providers', () => checkProviders(known(), { offline }));
  const apiKeys = await guarded('api_keys', () => checkApiKeys(known(), readKeyFile(paths.keyFile)));
  return [...machine, ...files, ...models, providers, apiKeys];
}

function describe({ ok, checks }: DoctorRecord): string {
  const rows = checks.flatMap((each) => {
    const [first = '', ...more] = [each.value, each.detail].filter((part) => part !== null);
    const below = [...more.map((part) => out.dim(part)), ...(each.hint === null ? [] : [`hint: ${each.hint}`])];
    return [[mark(each.status), each.name, first], ...below.map((part) => ['', '', part])];
  });
  const count = checks.filter((each) => each.status === 'fail').length;
  const verdict = ok
    ? out.green('svc can work here.')
    : out.red(`${String(count)} of ${String(checks.length)} checks failed.`);
  return [definitions(rows, out.tableColumns), '', verdict].join('\n');
}

function mark(status: DoctorCheck['status']): string {
  return { ok: out.green, warn: out.yellow, fail: out.red, skip: out.dim }[status](status.padEnd(4));
}
