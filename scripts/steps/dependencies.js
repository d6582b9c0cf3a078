/** Fetches the tarballs of the packages that svc depends on at run time, so that it can be installed without network. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { integrityOf } from './pack.js';
import { readJson } from './platforms.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';
import { unlessFresh } from './unless-fresh.js';

/** Folder of the tarballs. */
export const DEPENDENCIES = 'build/dependencies';

/** Returns the folder, with exactly the tarballs of the lock file. npm's cache usually has them. */
export async function fetchDependencies() {
  const wanted = await lockedDependencies();
  const folder = inRoot(DEPENDENCIES);
  await unlessFresh('dependencies', { inputs: [], facts: [[...wanted]], outputs: [DEPENDENCIES] }, async () => {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    const names = [...wanted.values()];
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
    const args = ['pack', '--silent', '--prefer-offline', '--pack-destination', folder, ...names];
    await run(`fetching ${names.length} packages`, npm, args, { shell: process.platform === 'win32' });
    for (const file of await readdir(folder)) {
      const digest = await integrityOf(join(folder, file));
      if (!wanted.has(digest)) throw new StepError(`${file} has another digest than package-lock.json`);
    }
  });
  return folder;
}

/** Returns `name@version` by digest. */
async function lockedDependencies() {
  const { packages } = await readJson('package-lock.json');
  const used = Object.entries(packages).filter(
    ([path, { dev = false, devOptional = false, link = false }]) => path !== '' && !dev && !devOptional && !link,
  );
  return new Map(
    used.map(([path, { version, integrity }]) => [integrity, `${path.replace(/^.*node_modules\//, '')}@${version}`]),
  );
}
