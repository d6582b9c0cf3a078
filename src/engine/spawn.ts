/** Starts an engine process: no data in arguments, the pipe on fd 3. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { engineEnvironment } from '../process/environment.ts';
import { ownCommand } from '../process/own-program.ts';
import { SvcError } from '../protocol/errors.ts';

export interface SpawnedEngine {
  readonly pid: number;
  /** fd 3 of the child. */
  readonly pipe: Duplex;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process is gone and its output is read. The caller must read all three streams. */
  readonly ended: Promise<EngineExit>;
  /** Sends SIGKILL: an engine has nothing to save, and one that hangs ignores milder signals. */
  kill(): void;
}

export interface EngineExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  /** The child's entry file; tests replace it. */
  readonly entry?: string | undefined;
  /** ggml backend to load in addition to those beside the addon (gpu.ts). */
  readonly gpuModule?: string | undefined;
}

const ENGINE_SETTINGS = {
  // After a failed assertion ggml would attach a debugger to itself, which can hang and prints strings.
  GGML_NO_BACKTRACE: '1',
  // The sandbox would break libuv's io_uring while in use.
  UV_USE_IO_URING: '0',
  // glibc 2.35 or newer asks Linux for huge pages for blocks of 2 MiB or more: weights and cache have tens of thousands
  // of small ones, and the first access to each costs up to 16 µs in a virtual machine.
  GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1',
  // An engine has no connections, and reading certificates takes a third of its start.
  NODE_EXTRA_CA_CERTS: undefined,
};

/** Added to the kernel's OOM score, in thousandths of memory: engines are killed before the user's other processes. */
const OOM_SCORE_ADJ = '500';

/** Throws ENGINE_CRASHED if the system has no process, file descriptor or memory left. */
export async function spawnEngine({ entry, gpuModule }: SpawnOptions = {}): Promise<SpawnedEngine> {
  const child = await start(entry, gpuModule);
  const ended = new Promise<EngineExit>((resolve) => {
    child.once('close', (code, signal) => {
      resolve({ code, signal });
    });
  });
  return {
    pid: child.pid as number,
    pipe: child.stdio[3] as Duplex,
    stdout: child.stdout as Readable,
    stderr: child.stderr as Readable,
    ended,
    kill: () => void child.kill('SIGKILL'),
  };
}

async function start(entry: string | undefined, gpuModule: string | undefined): Promise<ChildProcess> {
  try {
    const { command, cwd } = ownCommand('engine', entry);
    const [program, ...args] = command;
    const child = spawn(program, args, {
      // Not the daemon's start directory, which would stay in use.
      cwd: cwd ?? dirname(program),
      env: engineEnvironment({ ...ENGINE_SETTINGS, GGML_BACKEND_PATH: gpuModule }),
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      windowsHide: true,
    });
    sacrifice(child.pid);
    await once(child, 'spawn');
    child.on('error', () => undefined); // a kill that came too late
    return child;
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    throw new SvcError('ENGINE_CRASHED', `the system could not start an engine process (${reason})`, {
      hint: 'check the limits on processes, open files and memory',
      cause: error,
    });
  }
}

/** Set by the daemon: while the child starts, the OOM killer would otherwise choose the larger daemon. */
function sacrifice(pid: number | undefined): void {
  if (process.platform !== 'linux' || pid === undefined) return;
  try {
    writeFileSync(`/proc/${String(pid)}/oom_score_adj`, OOM_SCORE_ADJ);
  } catch {
    // The child has already ended, or a sandbox forbids it: the kernel then chooses by size alone.
  }
}

/** "exited with code 1", "was ended by SIGKILL". */
export function describeExit({ code, signal }: EngineExit): string {
  return signal === null ? `exited with code ${String(code)}` : `was ended by ${signal}`;
}
