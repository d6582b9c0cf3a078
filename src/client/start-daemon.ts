/**
 * Starting a daemon that outlives the command which started it.
 *
 * The child has a session of its own and no terminal; what it writes to standard error before its
 * log is open, or as it crashes, goes to a file. Where svc is installed as a service, its manager is
 * asked instead. Whether the start has succeeded is asked of the
 * socket, not of the child: when two commands start at once, one child finds the other's daemon and
 * ends, and that daemon is the answer for both. Only a child that ended with nobody on the socket
 * has failed.
 */
import { spawn } from 'node:child_process';
import { closeSync, readSync, statSync } from 'node:fs';
import { dirname, extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../config/environment.ts';
import { crashFile, type Paths } from '../config/paths.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { openToAppendSync, openToReadSync } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ReadyRecord } from '../protocol/records.ts';
import { Client } from './client.ts';

export type StartOutcome =
  | { readonly kind: 'ready'; readonly wasRunning: boolean }
  /** It runs but does not serve: not in time, or it has found out that it cannot. */
  | { readonly kind: 'not_ready'; readonly ready: ReadyRecord | null }
  /** `end` tells how; `lines` are the last that it wrote. */
  | { readonly kind: 'died'; readonly end: string; readonly code: number | null; readonly lines: readonly string[] };

const POLL_MS = 25;
const LAST_LINES = 20;
const LAST_BYTES = 16 * 1024;
const ENTRY = fileURLToPath(new URL(`../cli/main${extname(import.meta.url)}`, import.meta.url));

/**
 * Resolves once the daemon is ready, can't become ready, or `timeoutMs` have passed; it is left
 * running then. `onSpawn` is told when there was none.
 */
export async function startDaemon(
  paths: Pick<Paths, 'socketPath' | 'stateDir' | 'logFile'>,
  timeoutMs: number,
  onSpawn: () => void = () => undefined,
): Promise<StartOutcome> {
  const client = new Client(paths.socketPath);
  const deadline = performance.now() + timeoutMs;
  const marks = [crashFile(paths), paths.logFile].map((file) => ({ file, size: sizeOf(file) }));
  let child: DaemonChild | undefined;
  for (;;) {
    // Before the question: a child that lost the race ends once the winner's socket is there.
    const end = child?.end;
    const ready = await ask(client, Math.max(1000, deadline - performance.now()));
    if (ready === undefined) {
      if (end !== undefined)
        return {
          kind: 'died',
          end,
          code: child?.code ?? null,
          lines: marks.flatMap(({ file, size }) => linesSince(file, size)),
        };
      if (child === undefined) {
        onSpawn();
        child = await spawnDaemon(paths);
      }
    } else if (ready.status === 'ready') {
      return { kind: 'ready', wasRunning: child === undefined || end !== undefined };
    } else if (ready.state !== 'STARTING' && ready.state !== 'STOPPING') {
      return { kind: 'not_ready', ready };
    }
    if (performance.now() >= deadline) return { kind: 'not_ready', ready: ready ?? null };
    await sleep(POLL_MS);
  }
}

/** undefined: no daemon. */
async function ask(client: Client, timeoutMs: number): Promise<ReadyRecord | undefined> {
  try {
    return await client.ready(timeoutMs);
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING') return undefined;
    throw error;
  }
}

interface DaemonChild {
  /** undefined while it lives. */
  end: string | undefined;
  /** Exit code; null while it lives, and of one that a signal ended. */
  code: number | null;
}

async function spawnDaemon(paths: Pick<Paths, 'socketPath' | 'stateDir'>): Promise<DaemonChild> {
  const stderrFile = crashFile(paths);
  const stderr = openForAppend(stderrFile);
  const fromSource = ENTRY.endsWith('.ts');
  // Only when there is something to start: a daemon that runs is asked without any of it.
  const { startOfService } = await import('../service/installed.ts');
  const service = startOfService(paths);
  const [program = '', ...args] = service ?? [
    process.execPath,
    ...(fromSource ? process.execArgv : []),
    ENTRY,
    'serve',
    '--mode',
    'background',
  ];
  const child = spawn(program, args, {
    // Its own directory, since it would hold the caller's; from source `--import tsx` is looked up from here.
    cwd: dirname(fromSource ? ENTRY : stderrFile),
    detached: true,
    env: childEnvironment(),
    stdio: ['ignore', stderr, stderr],
    windowsHide: true,
  });
  closeSync(stderr);
  const state: DaemonChild = { end: undefined, code: null };
  child.once('error', (error: NodeJS.ErrnoException) => {
    state.end = `it could not be started (${error.code ?? error.message})`;
  });
  child.once('exit', (code, signal) => {
    // The service manager has started it, and does not stay.
    if (service !== undefined && code === 0) return;
    state.code = code;
    state.end = signal === null ? `exit code ${String(code)}` : `signal ${signal}`;
  });
  child.unref();
  return state;
}

function openForAppend(file: string): number {
  try {
    makeDirectorySync(dirname(file));
    return openToAppendSync(file, { empty: sizeOf(file) > LAST_BYTES * 64 });
  } catch (error) {
    throw new SvcError('CANNOT_WRITE', `cannot write ${file}: ${whyOf(error)}`, {
      hint: 'make its directory writable, or set SVC_HOME to one that is',
      cause: error,
    });
  }
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}

/** The last lines of what was written to `file` since it had `size` bytes. */
function linesSince(file: string, size: number): string[] {
  const now = sizeOf(file);
  // A file that is smaller than it was is a new one.
  const from = Math.max(now < size ? 0 : size, now - LAST_BYTES);
  if (now <= from) return [];
  const bytes = Buffer.alloc(now - from);
  const descriptor = openToReadSync(file);
  try {
    const read = readSync(descriptor, bytes, 0, bytes.length, from);
    return bytes
      .toString('utf8', 0, read)
      .split('\n')
      .filter((line) => line !== '')
      .slice(-LAST_LINES);
  } finally {
    closeSync(descriptor);
  }
}
