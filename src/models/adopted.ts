/** Files that were fetched, and the way they come into the store. */
import { copyFile, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeDirectory } from '../files/make-directory.ts';
import { digestOf } from './digest.ts';
import { filesOfModel } from './parts.ts';
import type { Registry, RegistryEntry, StoredFile } from './registry.ts';
import { digestOfParts, type StorePaths } from './store-paths.ts';

/** Of known content, checked. */
export interface FetchedFile {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Where it was fetched to; it is moved from there. null: the store holds it. */
  readonly path: string | null;
}

export interface FetchedModel {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly source: string;
  readonly license: string | null;
  /** In their order. */
  readonly weights: readonly FetchedFile[];
  readonly projector: FetchedFile | null;
}

/** The digest under which a model of these files is known. */
export function digestOfWeights(digests: readonly string[]): string {
  const [only, ...others] = digests;
  return only !== undefined && others.length === 0 ? only : digestOfParts(digests);
}

/** The digest of the model of which `path` is one file. @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID */
export async function digestOfModel(path: string): Promise<string> {
  const digests: string[] = [];
  for (const file of await filesOfModel(path)) digests.push(await digestOf(file));
  return digestOfWeights(digests);
}

/** Where each of the files has its place in the store. */
export function placesOf(paths: StorePaths, digests: readonly string[]): string[] {
  const [only, ...others] = digests;
  if (only !== undefined && others.length === 0) return [paths.blob(only)];
  const whole = digestOfParts(digests);
  return digests.map((_, index) => paths.part(whole, index, digests.length));
}

/**
 * Whether `place` holds the content. What a model in the registry stands on was checked when it came;
 * what was found damaged since, and anything else that lies there, is read whole.
 */
export async function holds(place: string, { digest, size_bytes }: StoredFile, registry: Registry): Promise<boolean> {
  const found = await stat(place).catch(() => null);
  if (found?.isFile() !== true || found.size !== size_bytes) return false;
  const isDamaged = registry.damaged.includes(digest);
  const isKnown =
    !isDamaged &&
    registry.models.some(
      (entry) =>
        entry.path === null &&
        (entry.digest === digest
          ? entry.modified_at_ms === found.mtimeMs
          : [...(entry.parts ?? []), entry.projector].some((file) => file?.digest === digest)),
    );
  return isKnown || (await digestOf(place)) === digest;
}

/** Moves a file, onto another disk too; under its new name it is whole or not there. */
export async function bring(from: string, to: string): Promise<void> {
  await makeDirectory(dirname(to));
  try {
    await rename(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    const unfinished = `${to}.unfinished-${process.pid}`;
    try {
      await copyFile(from, unfinished);
      const copy = await open(unfinished, 'r+');
      await copy.sync().finally(() => copy.close());
      await rename(unfinished, to);
    } finally {
      await rm(unfinished, { force: true });
    }
    await rm(from, { force: true });
  }
}

/** Deletes what `removed` stood on and no other model does. REQUIRES: the registry's lock. */
export async function deleteFiles(paths: StorePaths, removed: RegistryEntry, registry: Registry): Promise<void> {
  const others = registry.models.filter((entry) => entry !== removed);
  const blobsOf = (entry: RegistryEntry): string[] => [
    ...(entry.path === null && entry.parts === undefined ? [entry.digest] : []),
    ...(entry.projector === undefined ? [] : [entry.projector.digest]),
  ];
  const kept = new Set(others.flatMap(blobsOf));
  for (const digest of blobsOf(removed)) if (!kept.has(digest)) await rm(paths.blob(digest), { force: true });
  if (removed.path !== null || removed.parts === undefined) return;
  if (others.some(({ parts, digest }) => parts !== undefined && digest === removed.digest)) return;
  await rm(paths.parts(removed.digest), { recursive: true, force: true });
}
