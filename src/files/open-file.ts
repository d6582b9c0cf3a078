/**
 * Opens regular files only. Opening a FIFO would wait until another process opens its other end, perhaps forever; here
 * FIFOs, directories and devices are refused. O_NONBLOCK has no effect on regular files.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_TRUNC } = constants;
/** Undefined on Windows, which has no FIFOs in its file system. */
const NO_WAIT = (constants as { O_NONBLOCK?: number }).O_NONBLOCK ?? 0;
/** Access for the owner only. */
const MODE = 0o600;

/** The path exists but is not a regular file. */
export class NotAFileError extends Error {
  readonly code = 'ENOTAFILE';

  constructor(path: string) {
    super(`${path} is not a regular file`);
    this.name = 'NotAFileError';
  }
}

/** Rejects with NotAFileError or the file system's error. */
export async function openToRead(path: string): Promise<FileHandle> {
  return await regular(path, await open(path, O_RDONLY | NO_WAIT).catch((error: unknown) => refuse(path, error)));
}

/** Creates the file if needed. Rejects like `openToRead`. */
export async function openToAppend(path: string): Promise<FileHandle> {
  const flags = O_WRONLY | O_APPEND | O_CREAT | NO_WAIT;
  return await regular(path, await open(path, flags, MODE).catch((error: unknown) => refuse(path, error)));
}

/** Rejects with EEXIST if there is something at the path. */
export async function openToCreate(path: string): Promise<FileHandle> {
  return await open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, MODE);
}

/** Rejects like `openToRead`. */
export async function readText(path: string): Promise<string> {
  const file = await openToRead(path);
  try {
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

/** Returns the descriptor. Throws NotAFileError or the file system's error. */
export function openToReadSync(path: string): number {
  return openSyncAs(path, O_RDONLY);
}

/** Creates the file if needed; `empty` truncates it. Throws like `openToReadSync`. */
export function openToAppendSync(path: string, { empty = false } = {}): number {
  return openSyncAs(path, O_WRONLY | O_CREAT | (empty ? O_TRUNC : O_APPEND));
}

/** Throws like `openToReadSync`. */
export function readTextSync(path: string): string {
  const descriptor = openToReadSync(path);
  try {
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

async function regular(path: string, file: FileHandle): Promise<FileHandle> {
  const found = await file.stat().catch(() => null);
  if (found?.isFile() === true) return file;
  await file.close();
  throw new NotAFileError(path);
}

function openSyncAs(path: string, flags: number): number {
  let descriptor: number;
  try {
    descriptor = openSync(path, flags | NO_WAIT, MODE);
  } catch (error) {
    refuse(path, error);
  }
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new NotAFileError(path);
}

/** ENXIO: a FIFO without a reader, or a socket. EISDIR: a directory opened for writing. */
function refuse(path: string, error: unknown): never {
  const { code } = error as NodeJS.ErrnoException;
  throw code === 'ENXIO' || code === 'EISDIR' ? new NotAFileError(path) : error;
}
