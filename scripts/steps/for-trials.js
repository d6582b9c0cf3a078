/** Builds what qemu.js and wine.js run: the packages and native tests of another platform, and Node for it. */
import { makeTestModels } from './models.js';
import { nodeFromNpm } from './node-from-npm.js';
import { installPackages } from './packages.js';
import { buildNative, makePlatformPackage } from './platform-package.js';
import { PACKAGES } from './platforms.js';
import { inRoot } from './root.js';
import { makeRuntimePackage } from './runtime-package.js';

const NODE_VERSION = '20.20.2';

/**
 * Returns `{ bin, tarballs, node }`: the folder of the native `tests`, that of the packages, and the program of Node for
 * the platform.
 */
export async function makeForTrials(platform, tests) {
  await installPackages();
  const bin = inRoot(await buildNative(platform, tests));
  await makeTestModels();
  const tarballs = inRoot(PACKAGES);
  await makePlatformPackage(platform, tarballs);
  await makeRuntimePackage(tarballs);
  return { bin, tarballs, node: await nodeFromNpm(platform, NODE_VERSION) };
}
