/** Makes the package of JavaScript, which depends on one package of native files for the platform. */
import { cp, stat } from 'node:fs/promises';
import { basename, extname, join, sep } from 'node:path';
import { compileSources } from './dist.js';
import { copyInto, pack, stagingFolder, writeJson } from './pack.js';
import { lockedDependencies } from './packages.js';
import { manifest, packageName, platforms, RUNTIME } from './platforms.js';
import { inRoot } from './root.js';

/** Files that npm packs regardless of `files`. */
const ALWAYS = ['README.md', 'LICENSE'];
/** What a dependency needs when it runs, and its licence. The rest is four fifths of it: types, maps, tests. */
const RUN = new Set(['.js', '.cjs', '.mjs', '.json', '.proto']);
const LICENCE = /^(licen[cs]e|copying|notice)/i;
const TESTS = new Set(['test', 'tests', 'bench', 'benchmark', 'benchmarks']);

/**
 * Makes the tarball in `destination`; returns its path. The dependencies are in it, in the versions that were tested.
 * An npm-shrinkwrap.json, too, would keep their versions, but only for npm, and with it npm 11 installs the packages of
 * all platforms.
 */
export async function makeRuntimePackage(destination) {
  await compileSources();
  const folder = await stagingFolder(RUNTIME);
  await copyInto(folder, [...ALWAYS, ...manifest.files]);
  for (const path of (await lockedDependencies()).keys()) await copyDependency(path, join(folder, path));
  const optionalDependencies = Object.fromEntries(
    Object.keys(platforms).map((platform) => [packageName(platform), manifest.version]),
  );
  const forCheckout = ['scripts', 'overrides'];
  const published = Object.fromEntries(Object.entries(manifest).filter(([field]) => !forCheckout.includes(field)));
  const bundleDependencies = Object.keys(manifest.dependencies);
  await writeJson(join(folder, 'package.json'), { ...published, optionalDependencies, bundleDependencies });
  return await pack(folder, destination);
}

/** Without the packages in its own node_modules: each has a line of its own in the lock file. */
async function copyDependency(path, to) {
  const from = inRoot(path);
  const isNeeded = async (file) => {
    const [first] = file.slice(from.length + 1).split(sep);
    if (first === 'node_modules' || TESTS.has(first)) return false;
    return RUN.has(extname(file)) || LICENCE.test(basename(file)) || (await stat(file)).isDirectory();
  };
  await cp(from, to, { recursive: true, filter: isNeeded });
}
