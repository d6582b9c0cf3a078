/**
 * One daemon per home. The lasting lock is the bound control socket: the kernel closes it with the process, however
 * that ends, so no recorded pid has to be trusted. Binding alone is not atomic, since the socket file of a dead daemon
 * remains. Therefore probe, unlink and bind happen under a short lock in the state directory, which goes stale by
 * itself when its holder dies.
 */
import { lstatSync, unlinkSync } from 'node:fs';
import { once } from 'node:events';
import { connect, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock as acquire } from 'proper-lockfile';
import { readDaemonFile, type DaemonFile } from '../home/daemon-file.ts';
import { isLocked, whenFree } from '../files/file-lock.ts';
import { belongingsOf, isOurs } from '../home/belongings.ts';
import { makePrivateDirectory, type Paths } from '../home/paths.ts';
import { isAlive } from '../process/process-identity.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { spaceHintOf, whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';

/** Age at which a lock that its holder has not touched counts as stale and is taken over. */
const STALE_MS = 5000;
const RETRY_MS = 100;
/** Longer than STALE_MS, so that a start right after a crash within the lock succeeds. */
const RETRIES = 80;
/** Within this time a living daemon has bound its removed socket again (monitor.ts), and an ending one has ended. */
const SOCKETLESS_MS = 6000;

/**
 * Binds `control` to the control socket, which makes this process the daemon of this home. Then runs `first`, still
 * under the start lock. Throws ALREADY_RUNNING when a daemon runs. `inherited` is the descriptor of a control socket
 * that a service manager has bound. `prepare` runs before the socket is bound, when no daemon and no engine runs.
 */
export async function becomeTheDaemon<T>(
  paths: Paths,
  control: Server,
  first: () => Promise<T>,
  inherited?: number,
  prepare?: () => Promise<void>,
): Promise<T> {
  const belongings = belongingsOf(paths, paths.modelsDir);
  for (const directory of [paths.stateDir, paths.runtimeDir]) {
    const made = belongings.filter((each) => each.directory === directory);
    makePrivateDirectory(directory, (name) => made.some((each) => isOurs(each, name)));
  }
  const release = await lockHome(paths.stateDir);
  try {
    await refuseSecond(paths, inherited !== undefined);
    await prepare?.();
    await bind(control, inherited === undefined ? { path: paths.socketPath } : { fd: inherited });
    return await first();
  } finally {
    // Fails if the lock went stale meanwhile: then another process may hold it.
    await release().catch(() => undefined);
  }
}

async function lockHome(stateDir: string): Promise<() => Promise<void>> {
  const options = {
    lockfilePath: join(stateDir, 'start.lock'),
    realpath: false,
    stale: STALE_MS,
    // This process was suspended for seconds while it held the lock. If another daemon started meanwhile,
    // the one whose socket was replaced notices (monitor.ts).
    onCompromised: () => undefined,
  };
  try {
    return await whenFree(
      () => acquire(stateDir, options),
      RETRIES,
      () => RETRY_MS,
    );
  } catch (error) {
    if (isLocked(error))
      throw new SvcError('BUSY', 'another svc is starting in this home: try again in a few seconds', { cause: error });
    throw new SvcError('CANNOT_WRITE', `cannot write ${options.lockfilePath}: ${whyOf(error)}`, {
      hint: spaceHintOf(error) ?? 'make it writable, or set SVC_HOME to a directory that is',
      cause: error,
    });
  }
}

/** Throws ALREADY_RUNNING. Also probes the last daemon's socket: SVC_SOCKET may differ between two starts. */
async function refuseSecond(paths: Paths, ownsSocket: boolean): Promise<void> {
  const last = readDaemonFile(paths.daemonFile);
  const sockets = new Set([paths.socketPath]);
  if (last !== null && last.exit === null) sockets.add(last.socket);
  // A connection to an inherited socket would wait for this process itself.
  if (ownsSocket) sockets.delete(paths.socketPath);
  for (const socket of sockets) {
    if (!(await answers(socket))) continue;
    throw alreadyRunning(last?.exit === null && last.socket === socket ? last.pid : null, socket);
  }
  if (last !== null && (await livesWithoutSocket(paths, last))) throw alreadyRunning(last.pid, last.socket);
}

function alreadyRunning(pid: number | null, socket: string): SvcError {
  const who = pid === null ? '' : ` (pid ${String(pid)})`;
  return new SvcError('ALREADY_RUNNING', `svc is already running${who} at ${socket}`, {
    hint: 'see `svc status`; `svc stop` ends it',
  });
}

/**
 * True if the last daemon is alive although its socket does not answer. Either its socket file was just removed and
 * it will bind it again, or it is about to end: waits for both, at most SOCKETLESS_MS.
 */
async function livesWithoutSocket(paths: Paths, last: DaemonFile): Promise<boolean> {
  const recorded = last.process ?? null;
  const lives = (): boolean =>
    recorded !== null && readDaemonFile(paths.daemonFile)?.exit === null && isAlive(last.pid, recorded);
  const deadline = performance.now() + SOCKETLESS_MS;
  while (lives() && performance.now() < deadline) {
    if (await answers(last.socket)) return true;
    await sleep(RETRY_MS);
  }
  return lives();
}

/** True if a process listens there. A socket file without a listener was left behind by a crash. */
async function answers(socketPath: string): Promise<boolean> {
  const socket = connect(socketPath);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ENOTSOCK') return false;
    // The backlog is full: a process listens, but is busy.
    if (code === 'EAGAIN') return true;
    throw unusable(socketPath, error);
  } finally {
    socket.destroy();
  }
}

/**
 * Binds `control` to its path again after the file was removed. Open connections stay.
 * REQUIRES: nothing exists at the path.
 */
export async function bindAgain(control: Server, { runtimeDir, socketPath }: Paths): Promise<void> {
  makePrivateDirectory(runtimeDir);
  // Close first: libuv removes the file on close, and must not remove the new one.
  control.close();
  await bind(control, { path: socketPath });
}

async function bind(control: Server, where: { readonly path: string } | { readonly fd: number }): Promise<void> {
  if ('path' in where && process.platform !== 'win32') removeDeadSocket(where.path);
  const bound = once(control, 'listening');
  // `listen` binds before it returns; with this umask other users can never open the socket.
  const umask = process.umask(0o177);
  control.listen(where);
  process.umask(umask);
  try {
    await bound;
  } catch (error) {
    throw unusable('path' in where ? where.path : 'from the service manager', error);
  }
}

/** Removes a socket file. REQUIRES: no process listens on it. */
function removeDeadSocket(socketPath: string): void {
  try {
    makeDirectorySync(dirname(socketPath));
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
  return new SvcError('CANNOT_WRITE', `cannot use the control socket ${socketPath}: ${whyOf(error)}`, {
    hint: 'check the owner of the socket and its directory, or set SVC_SOCKET to another path',
    cause: error,
  });
}
