/** Fetches other builds of Node from npm. */
import { join } from 'node:path';
import { npmPackage } from './npm-package.js';
import { platforms } from './platforms.js';

/** Returns the program for the platform, which stays in build/. */
export async function nodeFromNpm(platform, version) {
  const { os, cpu } = platforms[platform];
  const isWindows = os === 'win32';
  const folder = await npmPackage(`node-${isWindows ? 'win' : os}-${cpu}`, version);
  return join(folder, 'bin', isWindows ? 'node.exe' : 'node');
}
