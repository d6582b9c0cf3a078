/** A Windows of its own under Wine: its folder, its environment, and its processes as Linux sees them. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from './run.js';

const POLL_MS = 100;

/** Makes a Windows 10 in `folder`; returns the variables with which programs run in it. */
export async function makeWindows(folder) {
  const env = {
    ...process.env,
    ...{ WINEPREFIX: join(folder, 'wine'), WINEDEBUG: '-all', WINEDLLOVERRIDES: 'mscoree,mshtml=' },
    // Wine is an older Windows than Node wants.
    NODE_SKIP_PLATFORM_CHECK: '1',
    // Its windows are never shown.
    DISPLAY: '',
  };
  await run('making a Windows', 'wine', ['wineboot', '--init'], { env, cwd: folder });
  await run('making it a Windows 10', 'wine', ['winecfg', '-v', 'win10'], { env, cwd: folder });
  return env;
}

/** Ends all programs of the Windows. */
export async function endWindows(env) {
  await run('ending the Windows', 'wineserver', ['--kill', '--wait'], { env }).catch(() => undefined);
}

/** The path of a file of Linux, as programs of Windows name it. */
export const windowsPath = (path) => `Z:${path.replaceAll('/', '\\')}`;

/** Returns the pids of the programs whose command line contains all of `words`. */
export async function programsWith(...words) {
  const found = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (words.every((word) => line.includes(word))) found.push(Number(pid));
  }
  return found;
}

/** Waits until there is such a program, or none if `wanted` is false; returns null, or what was waited for in vain. */
export async function waitForProgram(words, wanted, limitMs) {
  const deadline = performance.now() + limitMs;
  for (;;) {
    if ((await programsWith(...words)).length > 0 === wanted) return null;
    if (performance.now() >= deadline) return `${words.join(' ')} ${wanted ? 'does not run' : 'still runs'}`;
    await sleep(POLL_MS);
  }
}
