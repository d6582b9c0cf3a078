/** The files, the sockets and the daemon behind them. */
import { accessSync, constants, lstatSync, statSync, type Stats } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { Client } from '../../client/client.ts';
import { loadConfig, type Config } from '../../config/config.ts';
import type { Paths } from '../../config/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { DoctorCheck, StatusRecord } from '../../protocol/records.ts';
import { bytes, duration } from '../format.ts';
import { check, failed } from './check.ts';

/** The config in force; undefined when it is not valid. */
export function checkConfig(paths: Paths): { check: DoctorCheck; config: Config | undefined } {
  try {
    const config = loadConfig(paths);
    const there = statOf(paths.configFile) !== undefined;
    return { config, check: check('config', 'ok', there ? paths.configFile : `defaults (no ${paths.configFile})`) };
  } catch (error) {
    return { config: undefined, check: failed('config', error, paths.configFile) };
  }
}

/** Nobody else may reach the control socket: whoever does is served. */
export function checkSocket({ socketPath, runtimeDir }: Paths): DoctorCheck {
  if (process.platform === 'win32') return check('control_socket', 'ok', socketPath);
  const socket = statOf(socketPath);
  if (socket === undefined)
    return check('control_socket', 'skip', socketPath, { detail: 'made when the daemon starts' });
  const fault =
    faultOf(socket, 0o600) ?? (dirname(socketPath) === runtimeDir ? faultOf(statSync(runtimeDir), 0o700) : undefined);
  if (!socket.isSocket())
    return check('control_socket', 'fail', socketPath, { detail: 'it is not a socket', hint: 'remove it' });
  if (fault === undefined) return check('control_socket', 'ok', socketPath);
  return check('control_socket', 'fail', socketPath, {
    detail: fault,
    hint: 'remove it and restart the daemon: svc stop && svc start',
  });
}

function faultOf(stats: Stats, mode: number): string | undefined {
  if (stats.uid !== process.getuid?.()) return `it belongs to user ${String(stats.uid)}`;
  const loose = stats.mode & 0o777 & ~mode;
  return loose === 0 ? undefined : `others may use it (mode ${(stats.mode & 0o777).toString(8)})`;
}

export interface CheckedDaemon {
  readonly check: DoctorCheck;
  /** undefined: it does not run, or does not answer. */
  readonly status: StatusRecord | undefined;
  /** Whether it takes prompts. */
  readonly serves: boolean;
}

export async function checkDaemon(paths: Paths): Promise<CheckedDaemon> {
  const client = new Client(paths.socketPath);
  try {
    const [status, ready] = await Promise.all([client.status(), client.ready()]);
    const serves = ready.status === 'ready';
    const value = `${status.state}, pid ${String(status.pid)}, up ${duration(status.uptime_seconds)}`;
    const troubles = ready.conditions.filter((condition) => condition.status !== 'ok');
    const detail = troubles.map((condition) => `${condition.name}: ${condition.reason}`).join('; ') || null;
    const verdict = !serves ? 'fail' : troubles.length > 0 ? 'warn' : 'ok';
    return {
      status,
      serves,
      check: check('daemon', verdict, value, { detail, hint: verdict === 'ok' ? null : 'see `svc logs`' }),
    };
  } catch (error) {
    const isAbsent = error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING';
    const hint = 'start it with `svc start`';
    return {
      status: undefined,
      serves: false,
      check: isAbsent ? check('daemon', 'skip', 'not running', { hint }) : failed('daemon', error),
    };
  }
}

/** With a daemon, the address that it listens on; without one, whether the configured one is free. */
export async function checkHttpAddress(
  status: StatusRecord | undefined,
  config: Config | undefined,
): Promise<DoctorCheck> {
  if (status !== undefined) {
    return status.http === null
      ? check('http', 'fail', null, { detail: 'the daemon does not listen', hint: 'see `svc logs`' })
      : check('http', 'ok', status.http);
  }
  if (config === undefined) return check('http', 'skip', null, { detail: 'the config is not valid' });
  const { host, port } = config.http;
  const value = `${host}:${String(port)}`;
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
    return check('http', 'ok', `${value} is free`);
  } catch (error) {
    return check('http', 'fail', value, {
      detail: `cannot listen there: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`,
      hint: 'end what uses it, or set http.port in the config or SVC_HTTP_ADDR',
    });
  } finally {
    server.close();
  }
}

export function checkLog({ logFile }: Paths): DoctorCheck {
  const log = statOf(logFile);
  if (log === undefined) return check('log', 'skip', logFile, { detail: 'made when the daemon starts' });
  try {
    accessSync(logFile, constants.R_OK | constants.W_OK);
    return check('log', 'ok', `${logFile} (${bytes(log.size)})`);
  } catch {
    return check('log', 'fail', logFile, {
      detail: 'it cannot be read and written',
      hint: 'make it yours, or remove it',
    });
  }
}

function statOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
