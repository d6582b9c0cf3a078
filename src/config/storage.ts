/**
 * The condition `storage`: what the daemon keeps on the disk, looked at by path. What lies there may turn
 * into anything while the daemon runs: a file that nothing may read, another kind of file, a directory
 * of a disk that fails. It costs what needs that file, and is told here before somebody needs it.
 */
import { constants } from 'node:fs';
import { access, lstat, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { whyOf } from '../files/why.ts';
import type { Paths } from './paths.ts';

const { R_OK, W_OK, X_OK } = constants;

/** A path that may be absent, and has to be of its kind when it is there. */
export interface Place {
  readonly what: string;
  readonly path: string;
  readonly kind: 'directory' | 'file';
  readonly access: number;
}

export type StoragePaths = Pick<
  Paths,
  'stateDir' | 'cacheDir' | 'dataDir' | 'daemonFile' | 'logFile' | 'credentialsFile'
>;

/** What is wrong with each place: none when all is well. Never rejects. */
export async function troublesOf(
  paths: StoragePaths,
  now: Date,
  moreDirectories: readonly Pick<Place, 'what' | 'path'>[] = [],
): Promise<string[]> {
  const more = moreDirectories.map((each): Place => ({ ...each, kind: 'directory', access: R_OK | W_OK | X_OK }));
  const found = await Promise.all([...placesIn(paths, now), ...more].map((place) => troubleAt(place)));
  return found.filter((trouble) => trouble !== null);
}

function placesIn(paths: StoragePaths, now: Date): Place[] {
  const ledger = join(paths.stateDir, `usage-${now.toISOString().slice(0, 7)}.jsonl`);
  return [
    { what: 'state directory', path: paths.stateDir, kind: 'directory', access: R_OK | W_OK | X_OK },
    { what: 'cache directory', path: paths.cacheDir, kind: 'directory', access: R_OK | W_OK | X_OK },
    { what: 'data directory', path: paths.dataDir, kind: 'directory', access: R_OK | X_OK },
    { what: 'log', path: paths.logFile, kind: 'file', access: W_OK },
    { what: 'usage ledger', path: ledger, kind: 'file', access: R_OK | W_OK },
    { what: 'daemon file', path: paths.daemonFile, kind: 'file', access: R_OK },
    { what: "file of the providers' keys", path: paths.credentialsFile, kind: 'file', access: R_OK },
  ];
}

async function troubleAt({ what, path, kind, access: needed }: Place): Promise<string | null> {
  const trouble = (why: string): string => `the ${what} ${path} cannot be used: ${why}`;
  try {
    const found = await stat(path);
    if (kind === 'directory' && !found.isDirectory()) return trouble('it is not a directory');
    if (kind === 'file' && !found.isFile()) return trouble('it is not a regular file');
    await access(path, needed);
    return null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return trouble(whyOf(error));
    // Not there, or a link to what is not there: only the first is made when it is needed.
    return (await lstat(path).catch(() => null)) === null ? null : trouble('it is a link to nothing');
  }
}
