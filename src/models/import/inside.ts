/** Bounded reads of a foreign folder: no link is followed out of it, no loop, no FIFO, no end of entries or bytes. */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { openToRead } from '../../files/open-file.ts';
import { whyOf } from '../../files/why.ts';
import type { Refused } from '../../protocol/model/import.ts';

export const MOST_ENTRIES = 20_000;

/** Counts the entries of all folders of a scan. */
export interface Budget {
  left: number;
}

/** Why a file is refused. */
export class Unusable extends Error {
  override readonly name = 'Unusable';
}

export interface Listing {
  /** Paths of regular files, and of links, in order. */
  readonly files: string[];
  readonly refused: Refused[];
}

/**
 * Lists the files below `folder` whose names match. Links to folders are refused: they would be loops or lead out.
 * @param depth number of folders below `folder` that are entered
 */
export async function filesBelow(folder: string, name: RegExp, depth: number, budget: Budget): Promise<Listing> {
  const found: Listing = { files: [], refused: [] };
  const enter = async (path: string, left: number): Promise<void> => {
    for (const entry of await entriesOf(path, found.refused)) {
      if (budget.left === 0) return;
      budget.left -= 1;
      if (budget.left === 0) refuse(found, folder, `has more than ${MOST_ENTRIES} entries; the rest was not read`);
      const below = join(path, entry.name);
      if (entry.isDirectory()) {
        if (left > 0) await enter(below, left - 1);
      } else if (entry.isSymbolicLink() && (await stat(below).catch(() => null))?.isDirectory() === true) {
        refuse(found, below, 'is a link to a folder, which is not followed');
      } else if (name.test(entry.name)) {
        if (entry.isFile() || entry.isSymbolicLink()) found.files.push(below);
        else refuse(found, below, 'is not a regular file');
      }
    }
  };
  await enter(folder, depth);
  return found;
}

/** Names of the folders in `folder`; none if it is missing. */
export async function foldersIn(folder: string, refused: Refused[]): Promise<string[]> {
  const entries = await entriesOf(folder, refused);
  return entries.slice(0, MOST_ENTRIES).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

async function entriesOf(folder: string, refused: Refused[]): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!isMissing) refused.push({ path: folder, reason: `cannot be read: ${whyOf(error)}` });
    return [];
  }
}

/** Returns the size of the regular file that `path` leads to. @throws Unusable, also if it is outside of `root` */
export async function sizeInside(path: string, root: string): Promise<number> {
  const real = await realInside(path, root);
  const found = await stat(real);
  if (!found.isFile()) throw new Unusable('is not a regular file');
  return found.size;
}

/** Returns the path behind all links. @throws Unusable if it is missing, a loop, or outside of `root` */
export async function realInside(path: string, root: string): Promise<string> {
  let real: string;
  try {
    real = await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Unusable(code === 'ENOENT' ? 'is missing' : `cannot be read: ${whyOf(error)}`);
  }
  if (real.startsWith(root.endsWith(sep) ? root : root + sep)) return real;
  throw new Unusable(`is a link out of ${root}, to ${real}; add that file by itself: svc model add`);
}

/** Reads a small text. @throws Unusable if it is larger than `limit`, or cannot be read */
export async function readSmall(path: string, limit: number): Promise<string> {
  try {
    const file = await openToRead(path);
    try {
      const { size } = await file.stat();
      if (size > limit) throw new Unusable(`has ${size} bytes, more than the limit of ${limit}`);
      const buffer = Buffer.alloc(limit + 1);
      const { bytesRead } = await file.read(buffer, 0, limit + 1, 0);
      if (bytesRead > limit) throw new Unusable(`has more than ${limit} bytes`);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw error instanceof Unusable ? error : new Unusable(`cannot be read: ${whyOf(error)}`);
  }
}

function refuse({ refused }: Listing, path: string, reason: string): void {
  refused.push({ path, reason });
}
