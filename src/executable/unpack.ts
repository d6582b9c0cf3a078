/**
 * Unpacks the files of the single executable: native modules must be files, and so must what libraries read by path.
 *
 * The folder is `executable/DIGEST` in the user's cache. DIGEST covers the SHA-256 of every file, so versions do not
 * share a folder. The folder is private. It is written beside its place, checked and synchronized, and then renamed:
 * a process finds all files or none, also after a power cut and if several processes unpack at once. A later start
 * checks owner, mode and size of each file, and unpacks again if one is wrong.
 *
 * A system package installs the same folder beside the executable, as `files-DIGEST`; then nothing is unpacked, and no
 * cache is needed. Such a folder must belong to this user or to root.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { makeDirectorySync } from '../files/make-directory.ts';
import { errorOfFiles } from '../files/svc-error.ts';
import { makePrivateDirectory, ownPaths } from '../home/paths.ts';
import { ownAsset, ownText } from '../process/own-files.ts';
import { SvcError } from '../protocol/errors.ts';
import { DAY_MS } from '../protocol/limits.ts';

/** List of the files, an asset that scripts/steps/executable.js makes. */
export const LIST = 'files.json';

export interface FileList {
  /** Hexadecimal; covers `files`. */
  readonly digest: string;
  readonly files: readonly UnpackedFile[];
  /** True if the executable holds only the list of some files: they are in the folder beside it. */
  readonly isBeside: boolean;
}

export interface UnpackedFile {
  /** Relative to the root of the package, with slashes. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Bits of a mode with which other users could change a file. */
const WRITABLE_BY_OTHERS = 0o022;
/** Folders of other versions are removed if unused for this time; an executable that needs one unpacks it again. */
const UNUSED_MS = 30 * DAY_MS;

let found: string | undefined;

/**
 * Returns the folder with all files. Throws CANNOT_WRITE, CONFIG_INVALID, and ENGINE_UNAVAILABLE for a damaged file.
 */
export function unpackedFolder(): string {
  return (found ??= findOrUnpack(JSON.parse(ownText(LIST)) as FileList));
}

function findOrUnpack(list: FileList): string {
  const beside = join(dirname(process.execPath), `files-${list.digest}`);
  if (isWhole(beside, list, [0])) return beside;
  if (list.isBeside) throw damaged(`${beside} is missing or incomplete`);
  const parent = join(ownPaths().cacheDir, 'executable');
  makePrivateDirectory(parent);
  const folder = join(parent, list.digest);
  try {
    if (!isWhole(folder, list)) {
      removeUnused(parent);
      unpack(folder, list);
    }
    utimesSync(folder, new Date(), new Date());
    return folder;
  } catch (error) {
    throw errorOfFiles(error);
  }
}

/** True if the folder has every file with the right size, and only this user, or one of `owners`, can change them. */
function isWhole(folder: string, { files }: FileList, owners: readonly number[] = []): boolean {
  const isSafe = (path: string, bytes?: number): boolean => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || (bytes === undefined ? !found.isDirectory() : !found.isFile())) return false;
    if (bytes !== undefined && found.size !== bytes) return false;
    if (process.getuid === undefined) return true;
    return (found.mode & WRITABLE_BY_OTHERS) === 0 && [process.getuid(), ...owners].includes(found.uid);
  };
  const folders = new Set(files.map(({ path }) => dirname(path)));
  return (
    isSafe(folder) &&
    [...folders].every((path) => isSafe(join(folder, path))) &&
    files.every(({ path, bytes }) => isSafe(join(folder, path), bytes))
  );
}

function unpack(folder: string, list: FileList): void {
  const fresh = `${folder}.${randomBytes(8).toString('hex')}`;
  try {
    for (const file of list.files) {
      const content = ownAsset(file.path);
      if (createHash('sha256').update(content).digest('hex') !== file.sha256) {
        throw damaged(`${file.path} in it has another SHA-256`);
      }
      makeDirectorySync(dirname(join(fresh, file.path)));
      write(join(fresh, file.path), content);
    }
    replace(folder, fresh, list);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

function write(path: string, content: Buffer): void {
  const descriptor = openSync(path, 'wx', 0o600);
  try {
    for (let at = 0; at < content.length;) at += writeSync(descriptor, content, at);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Moves `fresh` to `folder`, unless another process has just put a whole one there. */
function replace(folder: string, fresh: string, list: FileList): void {
  try {
    renameSync(fresh, folder);
  } catch (error) {
    if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) throw error;
    if (isWhole(folder, list)) return;
    const broken = `${fresh}.old`;
    renameSync(folder, broken);
    rmSync(broken, { recursive: true, force: true });
    renameSync(fresh, folder);
  }
}

function removeUnused(parent: string): void {
  for (const name of readdirSync(parent)) {
    const path = join(parent, name);
    const used = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    if (Date.now() - used > UNUSED_MS) rmSync(path, { recursive: true, force: true });
  }
}

function damaged(why: string): SvcError {
  return new SvcError('ENGINE_UNAVAILABLE', `the executable ${process.execPath} is damaged: ${why}`, {
    hint: 'install it again',
  });
}
