/** Fetches packages from npm that are no dependencies of this one: they stay in build/. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { integrityOf } from './pack.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';

/**
 * Returns the folder of the unpacked package. `integrity`: the SHA-512 of its tarball in the notation of lock files. It
 * is part of the folder's name, so a folder is never that of another tarball. Safe for concurrent processes.
 */
export async function npmPackage(name, version, integrity) {
  const digest = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64')
    .toString('hex')
    .slice(0, 16);
  const folder = inRoot('build', `${name.replace(/^@.*\//, '')}-${version}-${digest}`);
  if (!existsSync(folder)) {
    await mkdir(inRoot('build'), { recursive: true });
    const fresh = await mkdtemp(`${folder}-`);
    try {
      await fetchPackage(`${name} ${version}`, `${name}@${version}`, integrity, fresh);
      await rename(fresh, folder);
    } catch (error) {
      // Another process may have made the same folder meanwhile.
      if (!existsSync(folder)) throw error;
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }
  return join(folder, 'package');
}

async function fetchPackage(title, specifier, integrity, folder) {
  const args = ['pack', '--silent', '--pack-destination', folder, specifier];
  const tarball = join(folder, (await run(`fetching ${title}`, 'npm', args)).trim());
  const found = await integrityOf(tarball);
  if (found !== integrity) throw new StepError(`${title} has the digest ${found}, not ${integrity}`);
  await run(`unpacking ${title}`, 'tar', ['-xzf', tarball, '-C', folder]);
  await rm(tarball);
}
