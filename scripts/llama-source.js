/**
 * The llama.cpp source of the pinned node-llama-cpp package, cloned into build/llama.cpp once.
 * Run directly, it prints the folder: CMake takes it from there.
 */
import { execFile } from 'node:child_process';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bundle = join(root, 'node_modules', 'node-llama-cpp', 'llama', 'gitRelease.bundle');

/** The folder, at the bundle's very commit. Safe when several processes ask at once. */
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
    // Another process may have been first with the same commit.
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

/** Null: nothing is there. A folder that is there is whole: it was renamed into place after its clone had ended. */
async function checkedOutCommit(folder) {
  try {
    return (await readFile(join(folder, '.git', 'HEAD'), 'utf8')).trim();
  } catch {
    return null;
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.stdout.write(`${await llamaSource()}\n`);
}
