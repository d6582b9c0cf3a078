/**
 * What engines have computed of prompts and keep on the disk, so that a conversation goes on quickly after its engine
 * has ended. An engine writes and bounds the files (native/engine/prefix_store.h); here is where they lie, and how
 * those go that nobody will use. They hold prompts, in the form in which a model remembers them.
 */
import { createHash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

export function prefixFolder(cacheDir: string): string {
  return join(cacheDir, 'prefixes');
}

/** What the names of a model's files begin with, before a hyphen. @param path of the model's file */
export function prefixName(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 32);
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
