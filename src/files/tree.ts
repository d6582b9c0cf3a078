/** Sizes and removal of files and directories that lie in someone else's home: links are never followed. */
import { lstat, readdir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Resolves with the bytes of a file, or of all files below a directory. 0 for what is not there. */
export async function bytesOf(path: string): Promise<number> {
  const found = await lstat(path).catch(() => null);
  if (found?.isDirectory() !== true) return found?.size ?? 0;
  let sum = 0;
  for (const name of await readdir(path).catch(() => [])) sum += await bytesOf(join(path, name));
  return sum;
}

/**
 * Removes a file, or a directory with all that is in it, except `kept` and the directories above them. A link is
 * removed, not what it points to. Succeeds if nothing is there. Rejects with the error of the file system.
 */
export async function removeTree(path: string, kept: ReadonlySet<string>): Promise<void> {
  if (kept.has(path)) return;
  try {
    if (!(await lstat(path)).isDirectory()) {
      await unlink(path);
      return;
    }
    for (const name of await readdir(path)) await removeTree(join(path, name), kept);
    await removeIfEmpty(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Removes a directory unless something is in it. Rejects with any other error. */
export async function removeIfEmpty(directory: string): Promise<void> {
  try {
    await rmdir(directory);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code)) throw error;
  }
}
