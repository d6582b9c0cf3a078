/** Lists and deletes partial downloads. */
import { readdir, rm, stat } from 'node:fs/promises';
import { check } from 'proper-lockfile';
import { SvcError } from '../../protocol/errors.ts';
import { downloadPaths, readJournal, type Journal } from './partial-file.ts';

const FORGOTTEN_MS = 30 * 86_400_000;

export interface Unfinished {
  readonly digest: string;
  readonly journal: Journal;
}

export async function listUnfinished(dir: string): Promise<Unfinished[]> {
  const found: Unfinished[] = [];
  for (const digest of await digestsIn(dir)) {
    const journal = await readJournal(downloadPaths(dir, digest).journal);
    if (journal !== null) found.push({ digest, journal });
  }
  return found;
}

/** Deletes downloads that were not resumed for long, except `kept`. */
export async function clearForgotten(dir: string, kept: readonly string[]): Promise<void> {
  for (const digest of await digestsIn(dir)) {
    const found = await stat(downloadPaths(dir, digest).journal).catch(() => null);
    if (!kept.includes(digest) && Date.now() - (found?.mtimeMs ?? 0) > FORGOTTEN_MS) await discard(dir, digest);
  }
}

/**
 * Deletes the partial download of the model named `typed`; the store is not touched. Returns the model's id; null:
 * there is none.
 * @throws SvcError BUSY when it is being downloaded
 */
export async function dropUnfinished(dir: string, typed: string): Promise<string | null> {
  const name = typed.toLowerCase().replace(/^(hf:|ollama:|hf\.co\/|huggingface\.co\/)/, '');
  const all = await listUnfinished(dir);
  const meant = all.filter(({ journal }) => {
    const model = journal.facts.model.toLowerCase();
    return model === name || model.startsWith(`${name}:`);
  });
  const [first] = meant;
  if (first === undefined) return null;
  for (const { digest } of meant) {
    if (await discard(dir, digest)) continue;
    throw new SvcError('BUSY', `${first.journal.facts.model} is being pulled`, {
      hint: 'stop that pull first: Ctrl-C where it runs',
    });
  }
  return first.journal.facts.model;
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
