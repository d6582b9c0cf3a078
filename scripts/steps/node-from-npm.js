/** Fetches other builds of Node from npm. Others than Node's makers publish them, and they ship in the executables. */
import { join } from 'node:path';
import { npmPackage } from './npm-package.js';
import { platforms, readJson } from './platforms.js';
import { StepError } from './run.js';

/** Digests of the tarballs, by package and version. */
export const NODES = 'npm/nodes.json';

/** Returns the program for the platform, which stays in build/. Throws StepError without a digest of its package. */
export async function nodeFromNpm(platform, version) {
  const { os, cpu } = platforms[platform];
  const isWindows = os === 'win32';
  const name = `node-${isWindows ? 'win' : os}-${cpu}`;
  const known = (await readJson(NODES))[name] ?? {};
  if (!Object.hasOwn(known, version)) {
    const others = Object.keys(known).join(', ') || 'none';
    const command = `npm view ${name}@${version} dist.integrity`;
    throw new StepError(`${NODES} has no digest of ${name} ${version} (only ${others}): add that of \`${command}\``);
  }
  const folder = await npmPackage(name, version, known[version]);
  return join(folder, 'bin', isWindows ? 'node.exe' : 'node');
}
