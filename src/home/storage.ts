/**
 * The condition `storage`: checks the daemon's files and directories by path. While the daemon runs, a path may become
 * unreadable, another type of file, or part of a failing disk. Then requests that need that file fail; this check
 * reports it before.
 */
import { constants } from 'node:fs';
import { access, lstat, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { whyOf } from '../files/why.ts';
import type { Paths } from './paths.ts';

const { R_OK, W_OK, X_OK } = constants;

/** A path that may be absent; if it exists, it must be of its kind. */
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

/** Returns the errors of all places; empty: none. Never rejects. */
export async function troublesOf(paths: StoragePaths, now: Date, more: readonly Place[] = []): Promise<string[]> {
  const found = await Promise.all([...placesIn(paths, now), ...more].map((place) => troubleAt(place)));
  return found.filter((trouble) => trouble !== null);
}

/** A directory that svc writes. */
export function writtenDirectory(what: string, path: string): Place {
  return { what, path, kind: 'directory', access: R_OK | W_OK | X_OK };
}

/** The config and its directory, which may be read-only: only `svc config` writes them. */
export function placesOfConfig({ configFile }: Pick<Paths, 'configFile'>): Place[] {
  return [
    { what: 'config directory', path: dirname(configFile), kind: 'directory', access: X_OK },
    { what: 'config file', path: configFile, kind: 'file', access: R_OK },
  ];
}

function placesIn(paths: StoragePaths, now: Date): Place[] {
  const ledger = join(paths.stateDir, `usage-${now.toISOString().slice(0, 7)}.jsonl`);
  return [
    writtenDirectory('state directory', paths.stateDir),
    writtenDirectory('cache directory', paths.cacheDir),
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
    // Missing, or a broken link: only a missing path is created when it is needed, and it may be created just now.
    const entry = await lstat(path).catch(() => null);
    if (entry?.isSymbolicLink() === true) return trouble('it is a broken link');
    const why = kind === 'directory' && (needed & W_OK) !== 0 ? await whyNotIn(dirname(path)) : null;
    return why === null ? null : trouble(why);
  }
}

/** Returns why nothing can be created in a directory, which may itself have to be created; null: it can. */
async function whyNotIn(directory: string): Promise<string | null> {
  try {
    await access(directory, W_OK | X_OK);
    return null;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT' && dirname(directory) !== directory;
    return isMissing ? await whyNotIn(dirname(directory)) : `it is missing, and ${directory}: ${whyOf(error)}`;
  }
}
