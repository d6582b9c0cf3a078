/** Finds the libraries of the system that Linux programs need, as the dynamic linker does. */
import { execFile } from 'node:child_process';
import { cp, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** Returns the paths of all libraries, the linker included, that `files` need outside `files`. */
export async function systemLibraries(files) {
  const { stdout } = await promisify(execFile)('ldd', files, { env: { ...process.env, LC_ALL: 'C' } });
  const found = stdout.matchAll(/^\s+(?:\S+ => )?(\/\S+) \(0x/gm);
  return [...new Set([...found].map(([, path]) => path))].filter((path) => !files.includes(path)).sort();
}

/** Copies them to the same paths below `folder`, links resolved. */
export async function copySystemLibraries(files, folder) {
  for (const path of await systemLibraries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await cp(path, join(folder, path), { dereference: true });
  }
}
