/**
 * Directories, made with their parents. Used instead of `mkdir` with `recursive`, which never ends on a
 * file system where a directory can be looked up in but not made in, such as /proc.
 */
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** For the user alone. */
const MODE = 0o700;

/** Resolves when `directory` is one. Rejects with the error of the file system. */
export async function makeDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, MODE);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') {
      await requireDirectory(directory, error);
      return;
    }
    const parent = dirname(directory);
    if (parent === directory) throw error;
    await makeDirectory(parent);
    // Another process may have made it meanwhile.
    await mkdir(directory, MODE).catch((again: unknown) => requireDirectory(directory, again));
  }
}

/** As `makeDirectory`, at once. */
export function makeDirectorySync(directory: string): void {
  try {
    mkdirSync(directory, MODE);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') {
      requireDirectorySync(directory, error);
      return;
    }
    const parent = dirname(directory);
    if (parent === directory) throw error;
    makeDirectorySync(parent);
    try {
      mkdirSync(directory, MODE);
    } catch (again) {
      requireDirectorySync(directory, again);
    }
  }
}

/** A link to a directory is one. Rejects with `refusal` otherwise. */
async function requireDirectory(path: string, refusal: unknown): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() !== true) throw refusal;
}

function requireDirectorySync(path: string, refusal: unknown): void {
  let isDirectory = false;
  try {
    isDirectory = statSync(path).isDirectory();
  } catch {
    // The first error says more.
  }
  if (!isDirectory) throw refusal;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
