/**
 * Creates directories with their parents. Replaces `mkdir` with `recursive`, which loops forever on file systems that
 * allow lookup but not creation, such as /proc.
 */
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Access for the owner only. */
const MODE = 0o700;

/** Resolves when the directory exists. Rejects with the file system's error. */
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
    // Another process may have created it meanwhile.
    await mkdir(directory, MODE).catch((again: unknown) => requireDirectory(directory, again));
  }
}

/** Synchronous `makeDirectory`. */
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

/** Resolves if `path` is a directory or a link to one, otherwise rejects with `refusal`. */
async function requireDirectory(path: string, refusal: unknown): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() !== true) throw refusal;
}

function requireDirectorySync(path: string, refusal: unknown): void {
  let isDirectory = false;
  try {
    isDirectory = statSync(path).isDirectory();
  } catch {
    // `refusal` is the more useful error.
  }
  if (!isDirectory) throw refusal;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
