/** Makes the package of JavaScript, which depends on one package of native files for the platform. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { compileSources } from './dist.js';
import { copyInto, integrityOf, pack, stagingFolder, writeJson } from './pack.js';
import { manifest, packageName, platforms, readJson, restrictions, RUNTIME, tarballName } from './platforms.js';

const LOCK = 'npm-shrinkwrap.json';
/** Files that npm packs regardless of `files`. */
const ALWAYS = ['README.md', 'LICENSE'];

/**
 * Makes the tarball in `destination`; returns its path. Its npm-shrinkwrap.json, which the repository must not have,
 * gives every user the versions and digests that were tested: of the dependencies, and of those platform packages
 * whose tarballs are in `destination`.
 */
export async function makeRuntimePackage(destination) {
  await compileSources();
  const folder = await stagingFolder(RUNTIME);
  await copyInto(folder, [...ALWAYS, ...manifest.files.filter((name) => name !== LOCK)]);
  const optionalDependencies = Object.fromEntries(
    Object.keys(platforms).map((platform) => [packageName(platform), manifest.version]),
  );
  const forCheckout = ['scripts', 'overrides'];
  const published = Object.fromEntries(Object.entries(manifest).filter(([field]) => !forCheckout.includes(field)));
  await writeJson(join(folder, 'package.json'), { ...published, optionalDependencies });
  const lock = shrinkwrapOf(await readJson('package-lock.json'), optionalDependencies);
  for (const platform of Object.keys(platforms)) {
    lock.packages[`node_modules/${packageName(platform)}`] = await lockedPlatform(platform, destination);
  }
  await writeJson(join(folder, LOCK), lock);
  return await pack(folder, destination);
}

/** Returns the lock file without the packages that only builds and tests need. */
function shrinkwrapOf({ packages, ...lock }, optionalDependencies) {
  const used = Object.entries(packages).filter(
    ([, { dev = false, devOptional = false, link = false, resolved = '' }]) =>
      !dev && !devOptional && !link && !resolved.startsWith('node_modules/'),
  );
  const locked = Object.fromEntries(used);
  locked[''] = { ...locked[''], optionalDependencies };
  return { ...lock, packages: locked };
}

async function lockedPlatform(platform, destination) {
  const tarball = join(destination, tarballName(packageName(platform)));
  const { version, license, engines } = manifest;
  return {
    version,
    ...(existsSync(tarball) ? { integrity: await integrityOf(tarball) } : {}),
    ...restrictions(platform),
    license,
    optional: true,
    engines,
  };
}
