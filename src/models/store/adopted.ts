/** Downloaded files, and how they are moved into the store. */
import { copyFile, link, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeDirectory } from '../../files/make-directory.ts';
import { digestOf, type DigestsOnce } from './digest.ts';
import { filesOfModel } from '../gguf/parts.ts';
import type { NewModel } from './lookup.ts';
import { besidesOf, cannotWrite, type Registry, type RegistryEntry, type StoredFile } from './registry.ts';
import { digestOfParts, type StorePaths } from './store-paths.ts';

/** A file whose digest was verified. */
export interface FetchedFile {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Where it was downloaded to; it is moved or copied from there. null: the store has it already. */
  readonly path: string | null;
}

export interface FetchedModel extends NewModel {
  readonly aliases: readonly string[];
  readonly source: string;
  readonly license: string | null;
  /** In the order of the parts. */
  readonly weights: readonly FetchedFile[];
  readonly projector: FetchedFile | null;
}

/** The digest of a model that consists of files with these digests. */
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

/** The path of each file in the store. */
export function placesOf(paths: StorePaths, digests: readonly string[]): string[] {
  const [only, ...others] = digests;
  if (only !== undefined && others.length === 0) return [paths.blob(only)];
  const whole = digestOfParts(digests);
  return digests.map((_, index) => paths.part(whole, index, digests.length));
}

/**
 * True if the file at `place` has the content. A file of a model in the registry was verified when it was added and
 * is trusted; a file found damaged since, or not in the registry, is hashed.
 */
export async function holds(
  place: string,
  { digest, size_bytes }: StoredFile,
  registry: Registry,
  digests: DigestsOnce,
): Promise<boolean> {
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
          : [...(entry.parts ?? []), ...besidesOf(entry)].some((file) => file.digest === digest)),
    );
  return isKnown || (await digests.of(place, found)) === digest;
}

/**
 * Calls `use` with the model, after each of its files that is on another disk was copied to the store's, so that `bring`
 * copies nothing while it holds the registry's lock. Copies that `use` did not move are deleted.
 * @throws SvcError CANNOT_WRITE; errors of `use`
 */
export async function withNearFiles<Result>(
  model: FetchedModel,
  paths: StorePaths,
  use: (near: FetchedModel) => Promise<Result>,
): Promise<Result> {
  const copies: string[] = [];
  const near = async (file: FetchedFile): Promise<FetchedFile> => {
    if (file.path === null) return file;
    const copy = paths.unfinished();
    copies.push(copy);
    if (await canMove(file.path, copy)) return file;
    await copySynced(file.path, copy);
    return { ...file, path: copy };
  };
  try {
    await makeDirectory(paths.blobs);
    const weights: FetchedFile[] = [];
    for (const file of model.weights) weights.push(await near(file));
    const projector = model.projector === null ? null : await near(model.projector);
    return await use({ ...model, weights, projector });
  } catch (error) {
    throw cannotWrite(error, paths.dir);
  } finally {
    for (const copy of copies) await rm(copy, { force: true }).catch(() => undefined);
  }
}

/** Resolves with false if the file would have to be copied. Two mounts of one disk can have the same device number. */
async function canMove(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    await rm(to);
    return true;
  } catch (error) {
    // Some file systems have no links; then `bring` finds out.
    return !isAcrossDisks(error);
  }
}

/** Moves a file, also to another disk. Under its new name it appears whole or not at all. */
export async function bring(from: string, to: string): Promise<void> {
  await makeDirectory(dirname(to));
  try {
    await rename(from, to);
  } catch (error) {
    if (!isAcrossDisks(error)) throw error;
    const unfinished = `${to}.unfinished-${process.pid}`;
    try {
      await copySynced(from, unfinished);
      await rename(unfinished, to);
    } finally {
      await rm(unfinished, { force: true });
    }
    await rm(from, { force: true });
  }
}

async function copySynced(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  const copy = await open(to, 'r+');
  await copy.sync().finally(() => copy.close());
}

function isAcrossDisks(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EXDEV';
}

/** Deletes the files of `removed` that no other model uses. REQUIRES: the registry's lock. */
export async function deleteFiles(paths: StorePaths, removed: RegistryEntry, registry: Registry): Promise<void> {
  const others = registry.models.filter((entry) => entry !== removed);
  await deleteBlobs(paths, blobsOf(removed), others);
  if (removed.path !== null || removed.parts === undefined) return;
  if (others.some(({ parts, digest }) => parts !== undefined && digest === removed.digest)) return;
  await rm(paths.parts(removed.digest), { recursive: true, force: true });
}

/** Deletes those of the files that none of the models uses. REQUIRES: the registry's lock. */
export async function deleteBlobs(
  paths: StorePaths,
  digests: readonly string[],
  models: readonly RegistryEntry[],
): Promise<void> {
  const kept = new Set(models.flatMap(blobsOf));
  for (const digest of digests) if (!kept.has(digest)) await rm(paths.blob(digest), { force: true });
}

function blobsOf(entry: RegistryEntry): string[] {
  const weights = entry.path === null && entry.parts === undefined ? [entry.digest] : [];
  return [...weights, ...besidesOf(entry).flatMap(({ digest, path }) => (path === undefined ? [digest] : []))];
}
