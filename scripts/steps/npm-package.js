/** Fetches packages from npm that are no dependencies of this one: they stay in build/. */
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { integrityOf } from './pack.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';

/** Returns the folder of the unpacked package. `integrity`: its digest in the notation of lock files, if it is known. */
export async function npmPackage(name, version, integrity = null) {
  const folder = inRoot('build', `${name.replace(/^@.*\//, '')}-${version}`);
  if (!existsSync(folder)) {
    const fresh = await mkdtemp(`${folder}-`);
    const args = ['pack', '--silent', '--pack-destination', fresh, `${name}@${version}`];
    const tarball = join(fresh, (await run(`fetching ${name} ${version}`, 'npm', args)).trim());
    if (integrity !== null && (await integrityOf(tarball)) !== integrity)
      throw new StepError(`${name} ${version} has another digest than ${integrity}`);
    await run(`unpacking ${name} ${version}`, 'tar', ['-xzf', tarball, '-C', fresh]);
    await rm(tarball);
    await rename(fresh, folder);
  }
  return join(folder, 'package');
}
