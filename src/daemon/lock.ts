/**
 * One daemon a home. The lasting lock is the bound control socket: the kernel closes it with the
 * process, however that ends, and no pid has to be believed. Binding is not atomic by itself, since
 * the file of a dead daemon's socket is still there: probe, unlink and bind therefore happen under a
 * short lock in the state directory, which goes stale by itself when its holder dies within.
 */
import { lstatSync, mkdirSync, unlinkSync } from 'node:fs';
import { once } from 'node:events';
import { connect, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { lock as acquire } from 'proper-lockfile';
import { readDaemonFile } from '../config/daemon-file.ts';
import { makePrivateDirectory, type Paths } from '../config/paths.ts';
import { SvcError } from '../protocol/errors.ts';

/** After so long a lock whose holder does not touch it is taken from it. */
const STALE_MS = 5000;
const RETRY_MS = 100;
/** Longer than STALE_MS, so that a start right after a crash within the lock succeeds. */
const RETRIES = 80;

/**
 * Binds `control` to the control socket; from then on this process is the daemon of this home. Then
 * does `first`, still before any other start may look. Throws ALREADY_RUNNING when there is one.
 */
export async function becomeTheDaemon<T>(paths: Paths, control: Server, first: () => Promise<T>): Promise<T> {
  makePrivateDirectory(paths.stateDir);
  makePrivateDirectory(paths.runtimeDir);
  const release = await lockHome(paths.stateDir);
  try {
    await refuseSecond(paths);
    await bind(control, paths.socketPath);
    return await first();
  } finally {
    // A lock that went stale meanwhile is not ours to release.
    await release().catch(() => undefined);
  }
}

async function lockHome(stateDir: string): Promise<() => Promise<void>> {
  try {
    return await acquire(stateDir, {
      lockfilePath: join(stateDir, 'start.lock'),
      realpath: false,
      stale: STALE_MS,
      retries: { retries: RETRIES, factor: 1, minTimeout: RETRY_MS, maxTimeout: RETRY_MS },
      // This process slept for seconds in these few lines. Should another one have started meanwhile,
      // the one whose socket was replaced notices (monitor.ts).
      onCompromised: () => undefined,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') {
      throw new SvcError('BUSY', 'another svc is starting here', { cause: error });
    }
    throw new SvcError('CANNOT_WRITE', `cannot lock ${stateDir}: ${(error as Error).message}`, { cause: error });
  }
}

/** SVC_SOCKET may differ between two starts in one home: the last daemon's own socket is asked too. */
async function refuseSecond(paths: Paths): Promise<void> {
  const last = readDaemonFile(paths.daemonFile);
  const sockets = new Set([paths.socketPath]);
  if (last !== null && last.exit === null) sockets.add(last.socket);
  for (const socket of sockets) {
    if (!(await answers(socket))) continue;
    const who = last?.exit === null && last.socket === socket ? ` (pid ${String(last.pid)})` : '';
    throw new SvcError('ALREADY_RUNNING', `svc is already running${who} at ${socket}`, {
      hint: 'see `svc status`; `svc stop` ends it',
    });
  }
}

/** Whether a process listens there. A file that nobody listens on is left behind by a crash. */
async function answers(socketPath: string): Promise<boolean> {
  const socket = connect(socketPath);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ENOTSOCK') return false;
    // A full backlog: somebody is there, and busy.
    if (code === 'EAGAIN') return true;
    throw unusable(socketPath, error);
  } finally {
    socket.destroy();
  }
}

async function bind(control: Server, socketPath: string): Promise<void> {
  if (process.platform !== 'win32') removeDeadSocket(socketPath);
  const bound = once(control, 'listening');
  // `listen` binds before it returns, and the socket must never be open to others.
  const umask = process.umask(0o177);
  control.listen(socketPath);
  process.umask(umask);
  try {
    await bound;
  } catch (error) {
    throw unusable(socketPath, error);
  }
}

/** REQUIRES: nobody listens there. */
function removeDeadSocket(socketPath: string): void {
  try {
    mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
    if (!lstatSync(socketPath).isSocket()) {
      throw new SvcError('CONFIG_INVALID', `${socketPath} is there and is not a socket`, {
        hint: 'remove it, or set SVC_SOCKET to another path',
      });
    }
    unlinkSync(socketPath);
  } catch (error) {
    if (error instanceof SvcError) throw error;
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(socketPath, error);
  }
}

function unusable(socketPath: string, error: unknown): SvcError {
  return new SvcError('CANNOT_WRITE', `cannot use the control socket ${socketPath}: ${(error as Error).message}`, {
    hint: 'check who owns it and its directory, or set SVC_SOCKET to another path',
    cause: error,
  });
}
