/**
 * Prefix files: the disk tier of the prefix cache, so that a conversation continues quickly after its engine has ended.
 * The engine writes the files and limits their size (native/engine/cache/prefix_store.h); this file has their folder
 * and deletes those that no engine will use. The files contain prompts, as KV-cache state of the model.
 */
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextSync } from '../../files/open-file.ts';

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
