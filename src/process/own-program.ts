/**
 * How svc starts programs of its own: another svc, and engine processes. From source they need Node and its TypeScript
 * loader, compiled they need Node, and the single executable starts itself with another argument.
 */
import { realpathSync } from 'node:fs';
import { dirname, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isExecutable, ownFile } from './own-files.ts';

/** First argument of an engine process of the single executable. */
export const ENGINE_ARGUMENT = '--run-engine-process';

export interface OwnCommand {
  /** Program and its first arguments. */
  readonly command: readonly [program: string, ...args: string[]];
  /** Working directory that the command needs; undefined: any. */
  readonly cwd: string | undefined;
}

/** `src/process` and `dist/process` have the same neighbours. */
const ENTRIES = { svc: '../cli/main', engine: '../engine/main' } as const;

/** Returns the command for `svc`, without its arguments, or for an engine process. `entry`: its file; tests set it. */
export function ownCommand(which: keyof typeof ENTRIES, entry?: string): OwnCommand {
  const program = process.execPath;
  if (isExecutable) return { command: which === 'engine' ? [program, ENGINE_ARGUMENT] : [program], cwd: undefined };
  const file = entry ?? fileURLToPath(new URL(ENTRIES[which] + extname(import.meta.url), import.meta.url));
  if (extname(file) !== '.ts') return { command: [program, file], cwd: undefined };
  // `--import tsx` is resolved from the working directory.
  return { command: [program, '--import', 'tsx', file], cwd: dirname(file) };
}

/** Returns the command for `svc` in a file that outlives this process: its path stays the same after an update. */
export function installedCommand(): readonly string[] {
  return isExecutable ? [process.execPath] : [process.execPath, realpathSync(ownFile('bin/svc.cjs'))];
}

/** Returns the single executable, or the folder of the package or checkout. */
export function ownPlace(): string {
  return isExecutable ? process.execPath : realpathSync(ownFile('.'));
}
