/**
 * Makes the published package svc-runtime-VERSION.tgz, in the current or the given folder.
 *
 *   npm run pack [-- FOLDER]
 *
 * It is packed in a separate folder (build/package), because the package has an npm-shrinkwrap.json that the
 * repository must not have. With it every user gets the dependency versions and digests that were tested.
 */
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { prebuild } from './prebuild.js';
import { inRoot } from './steps/root.js';
import { main, run } from './steps/run.js';

const LOCK = 'npm-shrinkwrap.json';
/** Files that npm packs regardless of `files`. */
const ALWAYS = ['package.json', 'README.md', 'LICENSE'];

await main(async () => {
  const [destination = '.'] = process.argv.slice(2);
  await prebuild();
  const folder = inRoot('build', 'package');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const { files } = await readJson('package.json');
  for (const name of [...ALWAYS, ...files.filter((name) => name !== LOCK)])
    await cp(inRoot(name), join(folder, name), { recursive: true });
  const lock = shrinkwrapOf(await readJson('package-lock.json'));
  await writeFile(join(folder, LOCK), `${JSON.stringify(lock, null, 2)}\n`);
  const tarball = await run('packing', 'npm', ['pack', '--silent', '--pack-destination', resolve(destination)], {
    cwd: folder,
  });
  process.stdout.write(`${join(destination, tarball.trim())}\n`);
});

/** Returns the lock file without the packages that only builds and tests need. */
function shrinkwrapOf({ packages, ...lock }) {
  const used = Object.entries(packages).filter(
    ([, { dev = false, devOptional = false, link = false, resolved = '' }]) =>
      !dev && !devOptional && !link && !resolved.startsWith('node_modules/'),
  );
  return { ...lock, packages: Object.fromEntries(used) };
}

async function readJson(name) {
  return JSON.parse(await readFile(inRoot(name), 'utf8'));
}
