/**
 * Prefix files: the disk tier of the prefix cache, so that a conversation continues quickly after its engine has ended.
 * The engine writes the files and limits their size (native/engine/cache/prefix_store.h); this file has their folder
 * and deletes those that no engine will use. The files contain prompts, as KV-cache state of the model.
 */
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, rm, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { readTextSync } from '../../files/open-file.ts';
import { within } from '../../files/within.ts';

/** Time that a file system has to report its free space. */
const ANSWER_MS = 1000;

/** Limits of the size that is chosen if none is configured. */
const LEAST_BYTES = 2 ** 30;
const MOST_BYTES = 32 * 2 ** 30;

export function prefixFolder(cacheDir: string): string {
  return join(cacheDir, 'prefixes');
}

/** Prefix of the names of a model's prefix files, before a hyphen. @param path of the model's file */
export function prefixName(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 32);
}

/**
 * Returns the secret that authenticates the files: 32 hexadecimal digits, created by the first call. An engine deletes
 * files made with another secret. If the secret cannot be stored, a new one is used for this run.
 */
export function prefixKey(stateDir: string): string {
  const path = join(stateDir, 'prefix.key');
  const kept = readKey(path);
  if (kept !== null) return kept;
  const key = randomBytes(16).toString('hex');
  try {
    rmSync(path, { force: true, recursive: true });
    writeFileSync(path, key, { mode: 0o600, flag: 'wx' });
  } catch {
    return key;
  }
  return key;
}

/**
 * Size limit of all prefix files together if none is configured: a share of what is free on their disk, with what they
 * take already. A file may hold a whole conversation of several gigabytes, so no constant is right for every disk.
 */
export async function defaultPrefixBytes(folder: string): Promise<number> {
  const [free = null, used = 0] = (await within(ANSWER_MS, Promise.all([freeBytes(folder), usedBytes(folder)]))) ?? [];
  return free === null ? LEAST_BYTES : prefixShareOf(free + used);
}

/** A tenth, from 1 to 32 GiB, but at most half. */
export function prefixShareOf(bytes: number): number {
  const share = Math.min(MOST_BYTES, Math.max(LEAST_BYTES, bytes / 10));
  return Math.floor(Math.min(share, bytes / 2));
}

/** Free bytes for this user on the file system that has, or will have, the folder. null: not reported. */
async function freeBytes(folder: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    return isMissing && dirname(folder) !== folder ? await freeBytes(dirname(folder)) : null;
  }
}

async function usedBytes(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = names.map(async (name) =>
    stat(join(folder, name)).then(
      ({ size }) => size,
      () => 0,
    ),
  );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Returns null if there is no key file, or other users may have read or written it. */
function readKey(path: string): string | null {
  try {
    const found = lstatSync(path);
    const isOwn = process.platform === 'win32' || (found.uid === process.getuid?.() && (found.mode & 0o077) === 0);
    if (!found.isFile() || !isOwn || found.size > 64) return null;
    const key = readTextSync(path).trim();
    return /^[0-9a-f]{32}$/.test(key) ? key : null;
  } catch {
    return null;
  }
}

/** Deletes the prefix files of one model. @param path of the model's file */
export async function removePrefixes(folder: string, path: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const own = names.filter((name) => name.startsWith(`${prefixName(path)}-`));
  await Promise.all(own.map((name) => rm(join(folder, name), { force: true })));
}

/** Deletes the prefix files of all models; ignores errors. */
export async function clearPrefixes(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}
