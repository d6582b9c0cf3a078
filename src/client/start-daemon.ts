/**
 * Starts a daemon that outlives the command which started it.
 *
 * The child has its own session and no terminal; its standard error, used before its log is open and in a crash, is a
 * file. If svc is installed as a service, the service manager is asked to start it instead.
 *
 * Success is determined by the socket, not by the child: if two commands start daemons at once, one child finds the
 * other daemon and ends, and both commands use that daemon. The start has failed only if the child has ended and no
 * daemon is listening.
 */
import { spawn } from 'node:child_process';
import { closeSync, readSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childEnvironment } from '../process/environment.ts';
import { ownCommand } from '../process/own-program.ts';
import { crashFile, type Paths } from '../home/paths.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { openToAppendSync, openToReadSync } from '../files/open-file.ts';
import { spaceHintOf, whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ReadyRecord } from '../protocol/records.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { ControlClient } from './control-client.ts';

export type StartOutcome =
  | { readonly kind: 'ready'; readonly wasRunning: boolean }
  /** The daemon runs but is not ready: it needs more time, or it cannot serve. null: it did not answer. */
  | { readonly kind: 'not_ready'; readonly ready: ReadyRecord | null }
  /** `end`: exit code or signal as text; `lines`: its last output. */
  | { readonly kind: 'died'; readonly end: string; readonly code: number | null; readonly lines: readonly string[] };

export interface StartOptions {
  /** Time for the daemon to become ready. */
  readonly timeoutMs: number;
  /** The same while it is STARTING: it answers and loads its default model. Absent: `timeoutMs`. */
  readonly startingMs?: number;
  /** Called if a daemon has to be started. */
  onSpawn?(): void;
  /** Called with every answer of a daemon that is STARTING. */
  onStarting?(ready: ReadyRecord): void;
}

const POLL_MS = 25;
const LAST_LINES = 20;
const LAST_BYTES = 16 * 1024;

/** Resolves once the daemon is ready, cannot become ready, or its time is over; it is left running in any case. */
export async function startDaemon(
  paths: Pick<Paths, 'socketPath' | 'stateDir' | 'logFile'>,
  { timeoutMs, startingMs = timeoutMs, onSpawn, onStarting }: StartOptions,
): Promise<StartOutcome> {
  const client = new ControlClient(paths.socketPath);
  const begunAt = performance.now();
  let deadline = begunAt + timeoutMs;
  const marks = [crashFile(paths), paths.logFile].map((file) => ({ file, size: sizeOf(file) }));
  let child: DaemonChild | undefined;
  for (;;) {
    // Read before asking: a child that lost the race ends only after the winner's socket is bound.
    const end = child?.end;
    const ready = await ask(client, Math.max(1000, Math.min(timeoutMs, deadline - performance.now())));
    const isStarting = ready?.state === 'STARTING';
    deadline = begunAt + (isStarting ? startingMs : timeoutMs);
    if (ready === undefined) {
      if (end !== undefined)
        return {
          kind: 'died',
          end,
          code: child?.code ?? null,
          lines: marks.flatMap(({ file, size }) => linesSince(file, size)),
        };
      if (child === undefined) {
        onSpawn?.();
        child = await spawnDaemon(paths);
      }
    } else if (ready.status === 'ready') {
      return { kind: 'ready', wasRunning: child === undefined || end !== undefined };
    } else if (isStarting) {
      onStarting?.(ready);
    } else if (ready.state !== 'STOPPING') {
      return { kind: 'not_ready', ready };
    }
    if (performance.now() >= deadline) return { kind: 'not_ready', ready: ready ?? null };
    await sleep(POLL_MS);
  }
}

/** Returns undefined if no daemon is running. */
async function ask(client: ControlClient, timeoutMs: number): Promise<ReadyRecord | undefined> {
  try {
    return await client.ready(timeoutMs);
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DAEMON_NOT_RUNNING') return undefined;
    throw error;
  }
}

interface DaemonChild {
  /** undefined while it runs. */
  end: string | undefined;
  /** Exit code; null while it runs, and if a signal ended it. */
  code: number | null;
}

async function spawnDaemon(paths: Pick<Paths, 'socketPath' | 'stateDir'>): Promise<DaemonChild> {
  const stderrFile = crashFile(paths);
  const stderr = openForAppend(stderrFile);
  const own = ownCommand('svc');
  // Imported only for a start; asking a running daemon does not need it.
  const { startOfService } = await import('../service/installed.ts');
  const service = startOfService(paths);
  const [program = '', ...args] = service ?? [...own.command, 'serve', '--mode', 'background'];
  const child = spawn(program, args, {
    // Not the caller's directory, which would stay in use.
    cwd: own.cwd ?? dirname(stderrFile),
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
    // The service manager's command has started the daemon and ends.
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
      hint: spaceHintOf(error) ?? 'make its directory writable, or set SVC_HOME to one that is',
      cause: error,
    });
  }
}

function sizeOf(file: string): number {
  return orElse(() => statSync(file).size, 0);
}

/** Returns the last lines written to `file` since it had `size` bytes. */
function linesSince(file: string, size: number): string[] {
  const now = sizeOf(file);
  // A file that has shrunk is a new file.
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
