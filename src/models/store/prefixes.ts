/**
 * Prefix files: the disk tier of the prefix cache, so that a conversation continues quickly after its engine has ended.
 * Engines write the files (native/engine/cache/prefix_store.h), each into the directory of its model, and the daemon
 * limits their size (prefix-room.ts); this file has their names and deletes those that no engine will use. The files
 * contain prompts, as KV-cache state of the model.
 */
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, rmSync, writeFileSync, type Dirent } from 'node:fs';
import { readdir, rename, rm, rmdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../../files/make-directory.ts';
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

/**
 * Name of a model's directory of prefix files, and of its directory of shaders; also the beginning of the files' names.
 *
 * @param path path of the model's file
 */
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
  const names = await readdir(folder, { recursive: true }).catch(() => []);
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

/** Directory of the GPU driver's shader cache for a model (src/engine/sandbox.ts). @param path its file */
export function shaderFolder(cacheDir: string, path: string): string {
  return join(shadersBeside(prefixFolder(cacheDir)), prefixName(path));
}

function shadersBeside(prefixes: string): string {
  return join(dirname(prefixes), 'shaders');
}

/** Deletes the prefix files and the shaders of one model. @param path its file */
export async function removePrefixes(folder: string, path: string): Promise<void> {
  const name = prefixName(path);
  for (const parent of [folder, shadersBeside(folder)]) {
    await rm(join(parent, name), { recursive: true, force: true });
  }
}

/** Deletes the prefix files of all models; ignores errors. */
export async function clearPrefixes(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}

/**
 * Moves files that lie beside each other, as earlier versions wrote them, into the directories of their models. Deletes
 * whatever else is there, and empty directories. Ignores errors. REQUIRES: no engine runs.
 */
export async function adoptPrefixes(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
    await adopt(folder, entry).catch(() => undefined);
  }
  for (const name of await readdir(shadersBeside(folder)).catch(() => [])) {
    if (NAME.test(name)) continue;
    await rm(join(shadersBeside(folder), name), { recursive: true, force: true }).catch(() => undefined);
  }
}

const NAME = /^[0-9a-f]{32}$/;

async function adopt(folder: string, entry: Dirent): Promise<void> {
  const path = join(folder, entry.name);
  const [, model] = /^([0-9a-f]{32})-[0-9a-f]+\.prefix$/.exec(entry.name) ?? [];
  if (entry.isDirectory() && NAME.test(entry.name)) {
    if ((await readdir(path)).length === 0) await rmdir(path);
  } else if (entry.isFile() && model !== undefined) {
    await makeDirectory(join(folder, model));
    await rename(path, join(folder, model, entry.name));
  } else {
    await rm(path, { recursive: true, force: true });
  }
}
