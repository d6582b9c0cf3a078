/**
 * Files in the store that belong to no model: unfinished files whose writer was killed, and content whose registry
 * entry was never written, or is lost.
 *
 * An unfinished file is deleted once it was not written to for a day. Unreferenced content is deleted a week after it
 * was first seen unreferenced, whatever its age: if the registry was moved away, adding or pulling the models again
 * finds it. Files with names that the store does not use are left alone.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DAY_MS } from '../../protocol/limits.ts';
import type { Leftover, Leftovers } from '../../protocol/model/verify.ts';
import { besidesOf, type Registry } from './registry.ts';
import type { StorePaths } from './store-paths.ts';

export const UNFINISHED_MS = DAY_MS;
export const UNREFERENCED_MS = 7 * DAY_MS;

const CONTENT = /^sha256-[0-9a-f]{64}$/;
/** Temporary names of StorePaths.unfinished, of `bring`, and of the registry (write-file-atomic). */
const UNFINISHED = /^\.unfinished-|\.unfinished-\d+$|^registry\.json\.\d+$/;

/** True for the name of a file that was not finished. */
export function isUnfinished(name: string): boolean {
  return UNFINISHED.test(name);
}

/** Modifies `registry`. REQUIRES: its lock. */
export async function collectLeftovers(paths: StorePaths, registry: Registry, now: number): Promise<Leftovers> {
  const named = new Set(registry.models.flatMap((entry) => placesNamed(entry, paths)));
  const removed: Leftover[] = [];
  const kept: (Leftover & { removed_after: string })[] = [];
  const since: Record<string, number> = {};
  for (const folder of [paths.dir, paths.blobs, paths.allParts, ...(await pathsIn(paths.allParts))]) {
    for (const path of await pathsIn(folder)) {
      const name = basename(path);
      const sizeBytes = await sizeOf(path);
      if (isUnfinished(name)) {
        const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: now }));
        if (now - mtimeMs > UNFINISHED_MS) removed.push({ path, size_bytes: sizeBytes });
      } else if (folder !== paths.dir && CONTENT.test(name) && !named.has(path)) {
        const key = join(basename(folder), name);
        const first = registry.unreferenced[key] ?? now;
        if (now - first > UNREFERENCED_MS) {
          removed.push({ path, size_bytes: sizeBytes });
        } else {
          since[key] = first;
          kept.push({ path, size_bytes: sizeBytes, removed_after: new Date(first + UNREFERENCED_MS).toISOString() });
        }
      }
    }
  }
  for (const { path } of removed) await rm(path, { recursive: true, force: true });
  registry.unreferenced = since;
  return { removed, freed_bytes: removed.reduce((sum, { size_bytes }) => sum + size_bytes, 0), kept };
}

function placesNamed(entry: Registry['models'][number], paths: StorePaths): string[] {
  const { path, digest, parts } = entry;
  return [
    ...(path !== null ? [] : [parts === undefined ? paths.blob(digest) : paths.parts(digest)]),
    ...besidesOf(entry).map((file) => file.path ?? paths.blob(file.digest)),
  ];
}

async function pathsIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
}

/** Size of a file, or of all files in a folder. */
async function sizeOf(path: string): Promise<number> {
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() !== true) return found?.size ?? 0;
  const sizes = await Promise.all((await pathsIn(path)).map(sizeOf));
  return sizes.reduce((sum, size) => sum + size, 0);
}
