/**
 * Clones the llama.cpp source of the pinned node-llama-cpp package into build/llama.cpp once.
 */
import { execFile } from 'node:child_process';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bundle = join(root, 'node_modules', 'node-llama-cpp', 'llama', 'gitRelease.bundle');

/** Returns the folder, at the exact commit of the bundle. Safe for concurrent processes. */
export async function llamaSource() {
  const folder = join(root, 'build', 'llama.cpp');
  const wanted = await bundledCommit();
  if ((await checkedOutCommit(folder)) === wanted) return folder;

  const fresh = `${folder}.${process.pid}`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(dirname(folder), { recursive: true });
  await promisify(execFile)('git', ['clone', '--quiet', bundle, fresh]);
  try {
    if ((await checkedOutCommit(folder)) !== wanted) {
      await rm(folder, { recursive: true, force: true });
      await rename(fresh, folder);
    }
  } catch (error) {
    // Another process may have created the same folder meanwhile.
    if ((await checkedOutCommit(folder)) !== wanted) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return folder;
}

/** A git bundle begins with text: a signature line, then `<commit> <ref>` lines up to an empty one. */
async function bundledCommit() {
  const file = await open(bundle);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4096), 0, 4096, 0);
    const commit = /^([0-9a-f]{40}) HEAD$/m.exec(buffer.toString('latin1', 0, bytesRead))?.[1];
    if (commit === undefined) throw new Error(`${bundle} names no HEAD: reinstall node-llama-cpp`);
    return commit;
  } finally {
    await file.close();
  }
}

/** Commit of the folder; null if it does not exist. An existing folder is complete: it is renamed after its clone. */
async function checkedOutCommit(folder) {
  try {
    return (await readFile(join(folder, '.git', 'HEAD'), 'utf8')).trim();
  } catch {
    return null;
  }
}
