/**
 * Ending the daemon: it is asked to drain and end, and is killed if it does not end in time. Its engines end with it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ControlClient } from '../../client/control-client.ts';
import { readDaemonFile } from '../../home/daemon-file.ts';
import type { Paths } from '../../home/paths.ts';
import { bootId, identifyProcess, isAlive as isSameProcess } from '../../process/process-identity.ts';
import { SvcError } from '../../protocol/errors.ts';
import { say } from '../terminal/output.ts';
import { stopServiceOf } from './service.ts';

/** Time after the drain for closing engines and listeners, and for the last log lines. */
const CLOSING_MS = 10_000;
const FORCED_CLOSING_MS = 3000;
const POLL_MS = 25;

/**
 * Resolves when the process of the daemon is gone; says so if it has to be killed. `drainMs`: how long requests in
 * flight may take to finish. `force`: with a shorter patience. Throws TIMEOUT if it cannot even be killed, and INTERNAL if
 * it was killed and the service manager refuses to leave it stopped.
 */
export async function stopDaemon(
  paths: Paths,
  { drainMs, force = false }: { readonly drainMs: number; readonly force?: boolean },
): Promise<{ readonly wasRunning: boolean; readonly killed: boolean }> {
  const asked = await askToStop(paths, drainMs);
  if (asked === undefined) return { wasRunning: false, killed: false };
  const { pid, heard } = asked;
  const patienceMs = !heard ? 0 : force ? FORCED_CLOSING_MS : drainMs + CLOSING_MS;
  const killed = !(await endsWithin(pid, patienceMs));
  if (killed) {
    say(`the daemon ${heard ? 'does not end' : 'does not answer'}: killing it (pid ${String(pid)})`);
    const isService = readDaemonFile(paths.daemonFile)?.mode === 'service';
    kill(pid);
    if (!(await endsWithin(pid, CLOSING_MS))) throw new SvcError('TIMEOUT', `process ${String(pid)} cannot be killed`);
    // To the service manager that was a crash, after which it starts the daemon again.
    if (isService) await stopServiceOf(paths);
  }
  return { wasRunning: true, killed };
}

/** Returns undefined if no daemon is running. */
async function askToStop(paths: Paths, drainMs: number): Promise<{ pid: number; heard: boolean } | undefined> {
  const client = new ControlClient(paths.socketPath);
  const recorded = recordedPid(paths);
  try {
    const pid = (await client.status()).pid ?? recorded;
    await client.stop(drainMs);
    return pid === undefined ? undefined : { pid, heard: true };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    if (error.code === 'DAEMON_NOT_RUNNING') return undefined;
    if (error.code !== 'NOT_READY' || recorded === undefined) throw error;
    // The process that holds the socket does not answer; daemon.json has its pid.
    return { pid: recorded, heard: false };
  }
}

/** Returns undefined if no daemon is recorded, or its pid now belongs to another process, which must not be killed. */
function recordedPid(paths: Paths): number | undefined {
  const file = readDaemonFile(paths.daemonFile);
  if (file === null || file.exit !== null) return undefined;
  const recorded = file.process ?? null;
  if (recorded === null) return file.pid;
  return isSameProcess(file.pid, recorded) ? file.pid : undefined;
}

async function endsWithin(pid: number, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (!isAlive(pid)) return true;
    if (performance.now() >= deadline) return false;
    await sleep(POLL_MS);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

/** False also for a zombie: a container without an init never reaps it. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return bootId() === null || identifyProcess(pid) !== null;
}
