/** Makes a tarball of a folder, as npm publishes it. */
import { createHash } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { inRoot } from './root.js';
import { run } from './run.js';

/** Returns the empty folder in which a package is put together. */
export async function stagingFolder(name) {
  const folder = inRoot('build', 'package', name);
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  return folder;
}

export async function copyInto(folder, names) {
  for (const name of names) await cp(inRoot(name), join(folder, name), { recursive: true });
}

export async function writeJson(path, value) {
  await writeFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** Returns the path of the tarball, which is the same to the byte for the same files. */
export async function pack(folder, destination) {
  await mkdir(resolve(destination), { recursive: true });
  const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', resolve(destination)];
  const output = await run('packing', 'npm', args, { cwd: folder });
  return join(resolve(destination), output.trim());
}

/** Digest of a file in the notation of lock files. */
export async function integrityOf(path) {
  return `sha512-${createHash('sha512')
    .update(await readFile(path))
    .digest('base64')}`;
}
