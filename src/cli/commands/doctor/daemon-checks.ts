/** Checks of the files, the sockets and the daemon. */
import { accessSync, constants, lstatSync, statSync, type Stats } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { ControlClient } from '../../../client/control-client.ts';
import { ownerFault, trustFault } from '../../../client/socket-trust.ts';
import { configWithoutFile, loadConfig, type Config } from '../../../config/config.ts';
import type { Paths } from '../../../home/paths.ts';
import { troublesOf, writtenDirectory } from '../../../home/storage.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import type { ProviderRecord, StatusRecord } from '../../../protocol/records.ts';
import { otherVersion } from '../../machine/other-version.ts';
import { bytes, duration } from '../../terminal/format.ts';
import { check, failed, skipped } from './check.ts';

/** Service that reports SERVING unless the daemon drains, ready or not; readiness is another check. */
const GRPC_SERVICE = 'svc.v1.Runtime';

/** Checks the config and returns it; without the file if it is invalid, so that the other checks can run. */
export function checkConfig(paths: Paths): { check: DoctorCheck; config: Config } {
  try {
    const config = loadConfig(paths);
    const there = statOf(paths.configFile) !== undefined;
    return { config, check: check('config', 'ok', there ? paths.configFile : `defaults (no ${paths.configFile})`) };
  } catch (error) {
    return { config: configWithoutFile(), check: failed('config', error, paths.configFile) };
  }
}

/** Checks that each place where svc keeps files has the right type and can be written. */
export async function checkPaths(paths: Paths, modelsDir: string): Promise<DoctorCheck> {
  const all = await troublesOf(paths, new Date(), [
    writtenDirectory('runtime directory', paths.runtimeDir),
    writtenDirectory('directory of models', modelsDir),
  ]);
  // The log has a check of its own.
  const troubles = all.filter((trouble) => !trouble.includes(paths.logFile));
  if (troubles.length === 0) return check('paths', 'ok', paths.stateDir);
  const hint = 'fix these paths, or set SVC_HOME to a directory that you can write to';
  return check('paths', 'fail', paths.stateDir, { detail: troubles.join('; '), hint });
}

/** Checks that other users cannot open the control socket, which serves every client without a key. */
export function checkSocket({ socketPath, runtimeDir }: Paths): DoctorCheck {
  if (process.platform === 'win32') return check('control_socket', 'ok', socketPath);
  const socket = statOf(socketPath);
  if (socket === undefined) return skipped('control_socket', 'created when the daemon starts', socketPath);
  const fault =
    trustFault(socketPath) ??
    faultOf(socketPath, socket, 0o600) ??
    (dirname(socketPath) === runtimeDir ? faultOf(runtimeDir, statSync(runtimeDir), 0o700) : undefined);
  if (!socket.isSocket())
    return check('control_socket', 'fail', socketPath, { detail: 'it is not a socket', hint: 'remove it' });
  if (fault === undefined) return check('control_socket', 'ok', socketPath);
  return check('control_socket', 'fail', socketPath, {
    detail: fault,
    hint: 'remove it and restart the daemon: svc restart',
  });
}

function faultOf(path: string, stats: Stats, mode: number): string | undefined {
  const foreign = ownerFault(stats, path);
  if (foreign !== undefined) return foreign;
  const loose = stats.mode & 0o777 & ~mode;
  return loose === 0 ? undefined : `other users can use ${path} (mode ${(stats.mode & 0o777).toString(8)})`;
}

export interface CheckedDaemon {
  readonly check: DoctorCheck;
  /** True if a daemon exists, even if it does not answer. */
  readonly runs: boolean;
  /** undefined if the daemon is not running or does not answer. */
  readonly status: StatusRecord | undefined;
  /** True if the daemon accepts prompts. */
  readonly serves: boolean;
  readonly providers: readonly ProviderRecord[];
}

export async function checkDaemon(paths: Paths): Promise<CheckedDaemon> {
  const client = new ControlClient(paths.socketPath);
  try {
    const [status, ready, providers] = await Promise.all([client.status(), client.ready(), client.providers()]);
    const serves = ready.status === 'ready';
    const value = `${status.state}, pid ${String(status.pid)}, up ${duration(status.uptime_seconds)}`;
    const troubles = ready.conditions
      .filter((condition) => condition.status !== 'ok')
      .map((condition) => `${condition.name}: ${condition.reason}`);
    if (status.state === 'STOPPING') troubles.unshift('it drains: it is stopping, or a drain was requested');
    const other = otherVersion(status);
    const isOther = other !== null;
    if (isOther) troubles.push(other);
    const verdict = !serves ? 'fail' : troubles.length > 0 ? 'warn' : 'ok';
    const hint =
      verdict === 'ok' ? null : isOther ? 'restart it: svc restart' : 'correct the cause; `svc logs` has the details';
    return {
      status,
      runs: true,
      serves,
      providers,
      check: check('daemon', verdict, value, { detail: troubles.join('; ') || null, hint }),
    };
  } catch (error) {
    const code = error instanceof SvcError ? error.code : undefined;
    return {
      status: undefined,
      runs: code !== 'DAEMON_NOT_RUNNING',
      serves: false,
      providers: [],
      check: checkWithoutStatus(code, error),
    };
  }
}

function checkWithoutStatus(code: string | undefined, error: unknown): DoctorCheck {
  if (code === 'DAEMON_NOT_RUNNING') {
    return check('daemon', 'skip', 'not running', { hint: 'start it with `svc start`' });
  }
  return code === 'FORBIDDEN' ? skipped('daemon', "the control socket is not this user's") : failed('daemon', error);
}

type ListenerName = 'http' | 'grpc';

/** With a daemon, the address that it listens on; without one, whether the configured one is free. */
export async function checkAddress(
  name: ListenerName,
  config: Config,
  { status, runs }: CheckedDaemon,
): Promise<DoctorCheck> {
  if (status !== undefined) {
    return status[name] === null
      ? check(name, 'fail', null, { detail: 'the daemon is not listening', hint: 'see `svc logs`' })
      : check(name, 'ok', status[name]);
  }
  if (runs) return skipped(name, 'the daemon holds this address, and does not answer');
  const { host, port } = config[name];
  const value = `${host}:${String(port)}`;
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
    return check(name, 'ok', `${value} is free`);
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    return check(name, 'fail', value, {
      detail: `cannot listen there: ${why}`,
      hint: `stop the program that uses it, or set ${name}.port in the config or SVC_${name.toUpperCase()}_ADDR`,
    });
  } finally {
    server.close();
  }
}

/** Checks gRPC by a health call: its library is loaded only by the first connection. */
export async function checkGrpc(config: Config, daemon: CheckedDaemon): Promise<DoctorCheck> {
  const address = await checkAddress('grpc', config, daemon);
  const bound = daemon.status?.grpc ?? null;
  if (bound === null) return address;
  const fail = (detail: string): DoctorCheck =>
    check('grpc', 'fail', bound, { detail, hint: 'see `svc logs`, then restart the daemon: svc restart' });
  const { checkGrpcService } = await import('../../../client/grpc-health.ts');
  try {
    const serving = await checkGrpcService(bound, GRPC_SERVICE);
    const expected = daemon.status?.state === 'STOPPING' ? 'NOT_SERVING' : 'SERVING';
    if (serving !== expected) return fail(`${GRPC_SERVICE} is ${serving}`);
    return check('grpc', 'ok', bound, { detail: `${GRPC_SERVICE} is ${serving}` });
  } catch {
    return fail('the daemon listens there, but does not answer grpc.health.v1');
  }
}

export function checkLog({ logFile }: Paths): DoctorCheck {
  const log = statOf(logFile);
  if (log === undefined) return skipped('log', 'created when the daemon starts', logFile);
  const hint = 'make it a file that you can read and write, or remove it';
  if (!log.isFile()) return check('log', 'fail', logFile, { detail: 'it is not a file', hint });
  try {
    accessSync(logFile, constants.R_OK | constants.W_OK);
    const older = statOf(`${logFile}.1`) === undefined ? '' : ', older ones beside it';
    return check('log', 'ok', `${logFile} (${bytes(log.size)}${older})`);
  } catch {
    return check('log', 'fail', logFile, { detail: 'it cannot be read or written', hint });
  }
}

function statOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
