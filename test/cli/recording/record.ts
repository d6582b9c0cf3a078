/**
 * Records the first hour with svc on a real terminal, in two sizes.
 *
 *   npm run recording [-- 80x24]     only that size
 *
 * Writes docs/images/first-hour-SIZE.cast (asciicast v2) and .svg. REQUIRES: Linux, root, `script` and `ip`.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../../architecture/source-files.ts';
import { noChroot } from '../../support/chroot.ts';
import { NO_TERMINAL } from '../../support/terminal.ts';
import { parseCast } from './cast.ts';
import { play } from './film.ts';
import { CODER_PRESET } from './newcomer.ts';
import { pathOf, SIZES } from './recordings.ts';
import { toSvg } from './svg.ts';

const SESSION = join(import.meta.dirname, 'session.ts');
const MAKE_MODEL = join(root, 'test', 'make-model', 'make-model.ts');
const MOST_BYTES = 10_000_000;
/** The session has a network of its own, in which the default ports are free. */
const ALONE = ['--net', 'sh', '-ec', 'ip link set lo up; exec "$@"', 'sh'];

/** Throws if the text names this machine. */
function check(text: string): void {
  const names = [root, hostname(), userInfo().username, userInfo().homedir, '/tmp/'];
  for (const name of names) {
    const at = text.indexOf(name);
    if (at !== -1) throw new Error(`the recording names ${name}: ${text.slice(Math.max(0, at - 80), at + 80)}`);
  }
}

const obstacle = NO_TERMINAL ?? noChroot();
if (obstacle !== undefined) throw new Error(obstacle);
await promisify(execFile)(process.execPath, [...process.execArgv, MAKE_MODEL, CODER_PRESET]);
for (const size of SIZES.filter((each) => each === (process.argv[2] ?? each))) {
  const command = [...ALONE, process.execPath, ...process.execArgv, SESSION, size];
  const { stdout: text } = await promisify(execFile)('unshare', command, { maxBuffer: MOST_BYTES });
  check(text);
  const film = await play(parseCast(text));
  const svg = toSvg(film);
  await writeFile(pathOf(size, 'cast'), text);
  await writeFile(pathOf(size, 'svg'), svg);
  process.stdout.write(`${size}: ${film.seconds.toFixed(0)} s, ${(svg.length / 1000).toFixed(0)} kB\n`);
}
