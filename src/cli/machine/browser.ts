/** The browser of the desktop. */
import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { childEnvironment, variable } from '../../process/environment.ts';
import { findProgram } from './program.ts';

/** Opens a file or a link with the program that the user has chosen for it. */
const OPENERS: Readonly<Partial<Record<NodeJS.Platform, string>>> = { darwin: 'open', win32: 'explorer' };
const OTHER_OPENER = 'xdg-open';

/** False where there is no display: on a server, and over SSH, where a browser would open on another machine. */
export function hasDisplay(): boolean {
  if (variable('SSH_CONNECTION') !== undefined) return false;
  if (process.platform in OPENERS) return true;
  return variable('DISPLAY') !== undefined || variable('WAYLAND_DISPLAY') !== undefined;
}

/** Resolves with true when the program that opens `path` runs; with false if it cannot be started. */
export async function openInBrowser(path: string): Promise<boolean> {
  const program = findProgram(OPENERS[process.platform] ?? OTHER_OPENER);
  if (program === undefined) return false;
  // The opener may become the browser itself, which outlives this command.
  const child = spawn(program, [path], {
    cwd: dirname(path),
    detached: true,
    env: childEnvironment(),
    stdio: 'ignore',
    windowsHide: true,
  });
  return await new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}
