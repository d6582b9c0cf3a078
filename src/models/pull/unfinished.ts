/** Lists and deletes partial downloads. */
import { readdir, rm, stat } from 'node:fs/promises';
import { check } from 'proper-lockfile';
import { SvcError } from '../../protocol/errors.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { findNamed, taggedAs, type Named } from '../../protocol/model/named.ts';
import { downloadPaths, readJournal } from './partial-file.ts';

const FORGOTTEN_MS = 30 * DAY_MS;

/** A model that is not downloaded completely. */
export interface Unfinished extends Named {
  /** Digests of its partial files. */
  readonly digests: readonly string[];
}

export async function listUnfinished(dir: string): Promise<Unfinished[]> {
  const found = new Map<string, Unfinished>();
  for (const digest of await digestsIn(dir)) {
    const facts = (await readJournal(downloadPaths(dir, digest).journal))?.facts;
    if (facts === undefined) continue;
    const key = facts.model.toLowerCase();
    const { id, aliases, digests } = found.get(key) ?? { id: facts.model, aliases: [], digests: [] };
    found.set(key, { id, aliases: [...aliases, ...facts.aliases], digests: [...digests, digest] });
  }
  return [...found.values()];
}

/**
 * Returns the partial download that `typed` names. undefined: it names an installed model, or nothing.
 * @throws SvcError MODEL_NOT_FOUND if it names several partial downloads
 */
export async function findUnfinished(
  dir: string,
  typed: string,
  installed: readonly Named[],
): Promise<Unfinished | undefined> {
  const unfinished = await listUnfinished(dir);
  const meant = findNamed(typed, [...installed, ...unfinished]);
  const several = taggedAs(typed, unfinished);
  if (meant === undefined && several.length > 1 && taggedAs(typed, installed).length === 0) {
    throw new SvcError('MODEL_NOT_FOUND', `there is no model ${JSON.stringify(typed)}`, {
      hint: `there are partial downloads of ${several.map(({ id }) => id).join(', ')}`,
      param: 'model',
    });
  }
  return unfinished.find((each) => each === meant);
}

/** Deletes downloads that were not resumed for long, except `kept`. */
export async function clearForgotten(dir: string, kept: readonly string[]): Promise<void> {
  for (const digest of await digestsIn(dir)) {
    const found = await stat(downloadPaths(dir, digest).journal).catch(() => null);
    if (!kept.includes(digest) && Date.now() - (found?.mtimeMs ?? 0) > FORGOTTEN_MS) await discard(dir, digest);
  }
}

/** Deletes a partial download; the store is not touched. @throws SvcError BUSY while it is being downloaded */
export async function dropUnfinished(dir: string, { id, digests }: Unfinished): Promise<void> {
  for (const digest of digests) {
    if (await discard(dir, digest)) continue;
    throw new SvcError('BUSY', `${id} is being pulled`, { hint: 'stop that pull first: Ctrl-C where it runs' });
  }
}

/** Deletes a download unless a process is downloading it; then returns false. */
export async function discard(dir: string, digest: string): Promise<boolean> {
  const { lock } = downloadPaths(dir, digest);
  if (await check(lock, { lockfilePath: lock, realpath: false })) return false;
  await removeDownload(dir, digest);
  return true;
}

/** REQUIRES: the lock of the digest. */
export async function removeDownload(dir: string, digest: string): Promise<void> {
  const { part, journal } = downloadPaths(dir, digest);
  await rm(part, { force: true });
  await rm(journal, { force: true });
}

async function digestsIn(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(() => []);
  const digests = names.map((name) => /^sha256-([0-9a-f]{64})\.(?:part|journal)$/.exec(name)?.[1]);
  return [...new Set(digests.filter((digest) => digest !== undefined))].map((digest) => `sha256:${digest}`);
}
