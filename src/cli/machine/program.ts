/** Finding an installed program, and running it in the foreground. */
import { spawn, type ChildProcess } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { constants as system } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { batchArguments } from '../../process/batch-file.ts';
import { childEnvironment, variable } from '../../process/environment.ts';
import { SvcError } from '../../protocol/errors.ts';

/** A shell's exit code for a program that a signal ended is this plus the signal's number. */
const SIGNALLED = 128;
/** A terminal sends these to every process of its foreground job: an agent has them already. */
const FROM_TERMINAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];
const FORWARDED: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGHUP'];

/** Returns the path of a program in PATH; undefined: there is none. Relative directories are passed over. */
export function findProgram(name: string): string | undefined {
  const endings = process.platform === 'win32' ? (variable('PATHEXT') ?? '.COM;.EXE;.BAT;.CMD').split(';') : [''];
  return (variable('PATH') ?? '')
    .split(delimiter)
    .filter((directory) => isAbsolute(directory))
    .flatMap((directory) => endings.map((ending) => join(directory, name + ending)))
    .find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * Runs a program with this process's terminal and passes signals on to it. Returns its exit code, or as a shell does
 * 128 and the number of the signal that ended it. Throws INTERNAL if it cannot be started.
 */
export async function runProgram(
  path: string,
  args: readonly string[],
  variables: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  const [program, words, options] = /\.(cmd|bat)$/i.test(path)
    ? ([variable('COMSPEC') ?? 'cmd.exe', batchArguments(path, args), { windowsVerbatimArguments: true }] as const)
    : ([path, args, {}] as const);
  const child = spawn(program, words, { ...options, stdio: 'inherit', env: childEnvironment(variables) });
  const stop = forwardSignals(child);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', (error: NodeJS.ErrnoException) => {
        reject(
          new SvcError('INTERNAL', `${path} cannot be started (${error.code ?? error.message})`, { cause: error }),
        );
      });
      child.once('close', (code, signal) => {
        resolve(code ?? SIGNALLED + (signal === null ? 0 : system.signals[signal]));
      });
    });
  } finally {
    stop();
  }
}

/** Keeps this process alive until the program ends, whatever the signal. Returns what undoes that. */
function forwardSignals(child: ChildProcess): () => void {
  const forward = (signal: NodeJS.Signals): void => {
    const hasIt = FROM_TERMINAL.includes(signal) && (process.stdin as { isTTY?: boolean }).isTTY === true;
    if (!hasIt) child.kill(signal);
  };
  const signals = [...FROM_TERMINAL, ...FORWARDED];
  for (const signal of signals) process.on(signal, forward);
  return () => {
    for (const signal of signals) process.off(signal, forward);
  };
}
