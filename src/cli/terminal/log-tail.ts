/** Reads a log file from its end, and follows it. */
import { closeSync, fstatSync, readSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openToReadSync } from '../../files/open-file.ts';
import { whyOf } from '../../files/why.ts';
import { SvcError } from '../../protocol/errors.ts';

const BLOCK_BYTES = 64 * 1024;
const POLL_MS = 200;
const NEWLINE = 0x0a;
/** Number of rotated files to look for, `.1` the newest; more than the daemon keeps. */
export const OLDER_FILES = 9;

/** An open log file, held by its descriptor because rotation renames the file. */
export interface OpenLog {
  readonly file: number;
  /** Offset up to which the file has been read; always the start of a line. */
  readonly position: number;
}

/** Returns the descriptor; undefined if there is no file. */
export function openLog(path: string): number | undefined {
  try {
    return openToReadSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new SvcError(
      code === 'EACCES' ? 'FORBIDDEN' : 'CANNOT_WRITE',
      `cannot read the log ${path}: ${whyOf(error)}`,
      {
        hint: 'make it a readable file that you own, or remove it; `svc doctor` checks it',
      },
    );
  }
}

/** Returns the offset of the end of the last complete line. */
export function endOfLines(file: number): number {
  let position = fstatSync(file).size;
  while (position > 0) {
    const block = read(file, Math.max(0, position - BLOCK_BYTES), position);
    const newline = block.lastIndexOf(NEWLINE);
    if (newline !== -1) return position - block.length + newline + 1;
    position -= block.length;
  }
  return 0;
}

/**
 * Returns the last `count` wanted lines before `end`, oldest first. Reads blocks backwards, so that the cost does not
 * depend on the size of the file.
 */
export function lastLines(file: number, end: number, count: number, wanted: (line: string) => boolean): string[] {
  const lines: string[] = [];
  const take = (bytes: Buffer): void => {
    const line = bytes.toString('utf8');
    if (line !== '' && wanted(line)) lines.push(line);
  };
  /** The rest of a line that begins in an earlier block. */
  let rest: Buffer = Buffer.alloc(0);
  let position = end;
  while (position > 0 && lines.length < count) {
    const from = Math.max(0, position - BLOCK_BYTES);
    const bytes = Buffer.concat([read(file, from, position), rest]);
    let lineEnd = bytes.length;
    while (lines.length < count) {
      const newline = lineEnd === 0 ? -1 : bytes.lastIndexOf(NEWLINE, lineEnd - 1);
      if (newline === -1) break;
      take(bytes.subarray(newline + 1, lineEnd));
      lineEnd = newline;
    }
    rest = bytes.subarray(0, lineEnd);
    position = from;
  }
  if (lines.length < count) take(rest);
  return lines.reverse();
}

/** Passes each new line of `path` to `onLine`, across rotations, continuing at `start`. Never returns. */
export async function follow(path: string, start: OpenLog | undefined, onLine: (line: string) => void): Promise<never> {
  let current = start;
  for (;;) {
    if (current !== undefined) current = { ...current, position: readOn(current, onLine) };
    if (current === undefined || isReplaced(path, current)) {
      const next = successor(path, current?.file);
      if (current !== undefined) closeSync(current.file);
      current = next === undefined ? undefined : { file: next, position: 0 };
      if (current !== undefined) continue;
    }
    await sleep(POLL_MS);
  }
}

/** Opens the file that succeeds `file`; not always the newest, because the log may have rotated more than once. */
function successor(path: string, file: number | undefined): number | undefined {
  const ino = file === undefined ? undefined : fstatSync(file).ino;
  for (let n = 1; ino !== undefined && n <= OLDER_FILES; n++) {
    const older = statSync(`${path}.${String(n)}`, { throwIfNoEntry: false });
    if (older === undefined) break;
    if (older.ino === ino) return openLog(n === 1 ? path : `${path}.${String(n - 1)}`);
  }
  return openLog(path);
}

/** Passes new lines to `onLine`. Returns the new offset: the end of the last complete line. */
function readOn({ file, position }: OpenLog, onLine: (line: string) => void): number {
  const { size } = fstatSync(file);
  let at = size < position ? 0 : position;
  const bytes = read(file, at, size);
  for (let newline = bytes.indexOf(NEWLINE), from = 0; newline !== -1; newline = bytes.indexOf(NEWLINE, from)) {
    onLine(bytes.toString('utf8', from, newline));
    at += newline + 1 - from;
    from = newline + 1;
  }
  return at;
}

/** True if another file has replaced the open one, which has been read completely. */
function isReplaced(path: string, { file, position }: OpenLog): boolean {
  const there = statSync(path, { throwIfNoEntry: false });
  if (there === undefined) return false;
  const { ino, size } = fstatSync(file);
  return there.ino !== ino && size <= position;
}

function read(file: number, from: number, to: number): Buffer {
  const bytes = Buffer.alloc(to - from);
  return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, from));
}
