/**
 * What engines have computed of prompts and keep on the disk, so that a conversation goes on quickly after its engine
 * has ended. An engine writes and bounds the files (native/engine/cache/prefix_store.h); here is where they lie, and how
 * those go that nobody will use. They hold prompts, in the form in which a model remembers them.
 */
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readTextSync } from '../files/open-file.ts';

export function prefixFolder(cacheDir: string): string {
  return join(cacheDir, 'prefixes');
}

/** What the names of a model's files begin with, before a hyphen. @param path of the model's file */
export function prefixName(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 32);
}

/**
 * The secret that authenticates the files: 32 hexadecimal digits, made when first asked for. A file that was made with
 * another secret is deleted by the engine that meets it. Where the secret cannot be kept, a new one serves this time.
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

/** null: there is none, or others may have read or written it. */
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

/** Of the model of that file. */
export async function removePrefixes(folder: string, path: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const own = names.filter((name) => name.startsWith(`${prefixName(path)}-`));
  await Promise.all(own.map((name) => rm(join(folder, name), { force: true })));
}

/** Of all models. What cannot be deleted stays. */
export async function clearPrefixes(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}
