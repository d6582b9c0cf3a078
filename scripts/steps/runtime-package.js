/** Makes the package of JavaScript, which needs nothing but one package of native files for the platform. */
import { join } from 'node:path';
import { compileSources } from './dist.js';
import { copyInto, pack, stagingFolder, writeJson } from './pack.js';
import { manifest, packageName, platforms, RUNTIME } from './platforms.js';

/** Files that npm packs regardless of `files`. */
const ALWAYS = ['README.md', 'LICENSE'];
/** Fields of package.json for a checkout alone. What dist/ needs of the dependencies is in it. */
const FOR_CHECKOUT = new Set(['scripts', 'overrides', 'dependencies']);

/** Makes the tarball in `destination`; returns its path. */
export async function makeRuntimePackage(destination) {
  await compileSources();
  const folder = await stagingFolder(RUNTIME);
  await copyInto(folder, [...ALWAYS, ...manifest.files]);
  const optionalDependencies = Object.fromEntries(
    Object.keys(platforms).map((platform) => [packageName(platform), manifest.version]),
  );
  const published = Object.fromEntries(Object.entries(manifest).filter(([field]) => !FOR_CHECKOUT.has(field)));
  await writeJson(join(folder, 'package.json'), { ...published, optionalDependencies });
  return await pack(folder, destination);
}
