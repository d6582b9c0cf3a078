/** How an engine process is started: the same Node, no arguments that tell anything, the pipe on fd 3. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname, extname } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { engineEnvironment } from '../config/environment.ts';
import { SvcError } from '../protocol/errors.ts';

/** The entry, as source or compiled, whichever we are ourselves. */
export const ENGINE_ENTRY = fileURLToPath(new URL(`./main${extname(import.meta.url)}`, import.meta.url));

export interface SpawnedEngine {
  readonly pid: number;
  /** fd 3 of the child. */
  readonly pipe: Duplex;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the process is gone and all that it wrote has been read: read the three streams. */
  readonly ended: Promise<EngineExit>;
  /** SIGKILL: an engine has nothing to save, and one that hangs would not hear less. */
  kill(): void;
}

export interface EngineExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SpawnOptions {
  /** The child's entry file; another one in tests. */
  readonly entry?: string | undefined;
  /** A backend of ggml that it loads besides those that lie with the addon (gpu.ts). */
  readonly gpuModule?: string | undefined;
}

/** Added to the kernel's badness score, in thousandths of all memory: the engine goes before anything else of the user's. */
const OOM_SCORE_ADJ = '500';

/** Throws ENGINE_CRASHED when the system has no process, file or memory to give. */
export async function spawnEngine({ entry = ENGINE_ENTRY, gpuModule }: SpawnOptions = {}): Promise<SpawnedEngine> {
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

async function start(entry: string, gpuModule: string | undefined): Promise<ChildProcess> {
  try {
    const child = spawn(process.execPath, [...loaderArguments(entry), entry], {
      // `--import tsx` is looked up from the working directory; and the directory in which somebody
      // happened to start the daemon must not be held.
      cwd: dirname(entry),
      // After a failed assertion ggml would attach a debugger to itself, which can hang and prints strings.
      // libuv's io_uring would be cut off by the sandbox in its midst.
      env: engineEnvironment({ GGML_NO_BACKTRACE: '1', UV_USE_IO_URING: '0', GGML_BACKEND_PATH: gpuModule }),
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

/** Not left to the child: Node alone takes tens of megabytes before it runs a line of ours, and until then the daemon is larger. */
function sacrifice(pid: number | undefined): void {
  if (process.platform !== 'linux' || pid === undefined) return;
  try {
    writeFileSync(`/proc/${String(pid)}/oom_score_adj`, OOM_SCORE_ADJ);
  } catch {
    // It has ended already, or a sandbox forbids it; the kernel then chooses by size alone.
  }
}

/** "exited with code 1", "was ended by SIGKILL". */
export function describeExit({ code, signal }: EngineExit): string {
  return signal === null ? `exited with code ${String(code)}` : `was ended by ${signal}`;
}

/** From source the child needs the TypeScript loader that we were started with, and nothing else of our arguments. */
function loaderArguments(entry: string): string[] {
  if (extname(entry) !== '.ts') return [];
  const found: string[] = [];
  const { execArgv } = process;
  for (let at = 0; at < execArgv.length; at++) {
    const argument = execArgv[at] as string;
    const [name, value] = argument.split('=', 2) as [string, string?];
    if (name !== '--import' && name !== '--require' && name !== '--loader') continue;
    found.push(name, value ?? (execArgv[++at] as string));
  }
  return found;
}
