/** `svc doctor`: every check runs whatever the results of the others; one that depends on a broken part is skipped. */
import { modelNamesIn } from '../../config/model-settings.ts';
import { readKeyFile } from '../../home/key-file.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { memoryForModel } from '../../models/pull/fits.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { DoctorAdvice, DoctorCheck, DoctorRecord } from '../../protocol/doctor.ts';
import { orElse } from '../../protocol/foreign-text.ts';
import type { ModelRecord, ProviderRecord } from '../../protocol/records.ts';
import { ProviderKeys } from '../../providers/provider-keys.ts';
import { providersInUse, recordOf } from '../../providers/providers.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { adviceFrom, type Machine } from './doctor/advice.ts';
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
import { checkEngine, type CheckedEngine } from './doctor/engine-checks.ts';
import { checkDisk, checkMemory, checkNode, checkUser, freeBytes } from './doctor/machine-checks.ts';
import { checkModels } from './doctor/model-checks.ts';
import { checkApiKeys, checkProviders } from './doctor/provider-check.ts';
import { checkSandbox } from './doctor/sandbox-check.ts';
import { bytes } from '../terminal/format.ts';
import { definitions, table } from '../terminal/layout.ts';
import { out, sayProgress } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Check everything svc needs, and run a real kernel on every device',
  detail: ['Works with and without a daemon. Ends with what to do first.'],
  flags: { offline: { kind: 'switch', summary: 'do not contact the providers' }, json: jsonFlag },
  examples: ['svc doctor', 'svc doctor --offline --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json, offline }) => {
  const { checks, models, machine } = await examine(offline);
  sayProgress('');
  const ok = checks.every((each) => each.status !== 'fail');
  const record: DoctorRecord = { ok, checks, advice: adviceFrom(checks, models, machine) };
  printResult(json, record, describe(record));
  return record.ok ? 0 : 1;
};

interface Examined {
  readonly checks: readonly DoctorCheck[];
  readonly models: readonly ModelRecord[] | null;
  readonly machine: Machine;
}

async function examine(offline: boolean): Promise<Examined> {
  sayProgress('running a kernel on each device');
  const found = pathsHere();
  const paths = found instanceof SvcError ? null : found;
  // First and alone: other work would slow the measured kernels down.
  const engine = await checkEngine(paths?.cacheDir ?? null);
  const sandbox = await checkSandbox({ engineWorks: engine.works });
  const machine = [checkNode(), checkUser(), ...engine.checks, sandbox, checkMemory()];
  if (paths === null)
    return { checks: [...machine, failed('paths', found)], models: null, machine: machineOf(engine, null) };
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
  return {
    checks: [...machine, ...files, ...models.checks, providers, apiKeys],
    models: models.models,
    machine: machineOf(
      engine,
      orElse(() => freeBytes(modelsDir), null),
    ),
  };
}

function pathsHere(): Paths | SvcError {
  try {
    return resolvePaths();
  } catch (error) {
    return SvcError.from(error);
  }
}

/** Room for a model, and the speed of the fastest device. */
function machineOf({ devices }: CheckedEngine, diskBytes: number | null): Machine {
  const speeds = devices.flatMap(({ gflops }) => gflops ?? []);
  return {
    memoryBytes: memoryForModel(devices),
    diskBytes,
    gflops: speeds.length === 0 ? null : Math.max(...speeds),
  };
}

function describe({ ok, checks, advice }: DoctorRecord): string {
  const rows = checks.flatMap((each) => {
    const [first = '', ...more] = [each.value, each.detail].filter((part) => part !== null);
    const below = [...more.map((part) => out.dim(part)), ...(each.hint === null ? [] : [`hint: ${each.hint}`])];
    return [[mark(each.status), each.name, first], ...below.map((part) => ['', '', part])];
  });
  const count = checks.filter((each) => each.status === 'fail').length;
  const verdict = ok
    ? out.green('svc can work here.')
    : out.red(`${String(count)} of ${String(checks.length)} checks failed.`);
  return [definitions(rows, out.tableColumns), '', verdict, ...describeAdvice(advice)].join('\n');
}

function describeAdvice({ first, only_builtin: onlyBuiltin, models }: DoctorAdvice): string[] {
  const what = first === null ? [] : ['', `First: ${first}`];
  if (!onlyBuiltin) return what;
  const rows = models.map((model) => [
    model.command,
    `~${bytes(model.estimated_bytes)}`,
    model.estimated_tokens_per_second === null ? '' : `~${String(model.estimated_tokens_per_second)} tokens/s`,
    model.good_at,
  ]);
  const found = rows.length === 0 ? 'No model of the catalogue fits this machine.' : 'These would run well here:';
  return [
    ...what,
    '',
    `Only the built-in model is installed, which knows little but svc. ${found}`,
    table(rows, out.tableColumns),
  ];
}

function mark(status: DoctorCheck['status']): string {
  return { ok: out.green, warn: out.yellow, fail: out.red, skip: out.dim }[status](status.padEnd(4));
}
