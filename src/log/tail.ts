/** Reads a log file from its end, and follows it: for `svc logs`, and in the daemon for the console. */
import { stat, type FileHandle } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ifMissing } from '../files/missing.ts';
import { openToRead } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';

const BLOCK_BYTES = 64 * 1024;
/** Most bytes of new lines that are held at once; a longer line is read whole. */
const TURN_BYTES = 1024 * 1024;
const POLL_MS = 200;
const NEWLINE = 0x0a;
/** Number of rotated files to look for, `.1` the newest; more than the daemon keeps. */
const OLDER_FILES = 9;

export type IsWanted = (line: string) => boolean;

/** An open log file, held by its handle because rotation renames the file. */
export interface OpenLog {
  readonly file: FileHandle;
  /** Offset up to which the file has been read; always the start of a line. */
  readonly position: number;
}

/** Resolves with undefined if there is no file. */
export async function openLog(path: string): Promise<FileHandle | undefined> {
  try {
    return await openToRead(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new SvcError(
      code === 'EACCES' ? 'FORBIDDEN' : 'CANNOT_WRITE',
      `cannot read the log ${path}: ${whyOf(error)}`,
      { hint: 'make it a readable file that you own, or remove it; `svc doctor` checks it' },
    );
  }
}

/**
 * Resolves with the last `count` wanted lines, oldest first, also from rotated files, and with the open file, from
 * whose position `follow` continues; undefined if there is no file. The caller closes it.
 */
export async function tailLog(
  path: string,
  count: number,
  wanted: IsWanted,
): Promise<{ readonly lines: string[]; readonly log: OpenLog | undefined }> {
  const file = await openLog(path);
  try {
    const position = file === undefined ? 0 : await endOfLines(file);
    let lines = file === undefined ? [] : await lastLines(file, position, count, wanted);
    for (let n = 1; n <= OLDER_FILES && lines.length < count; n += 1) {
      const older = await openLog(`${path}.${String(n)}`);
      if (older === undefined) break;
      try {
        lines = [...(await lastLines(older, await endOfLines(older), count - lines.length, wanted)), ...lines];
      } finally {
        await older.close();
      }
    }
    return { lines, log: file === undefined ? undefined : { file, position } };
  } catch (error) {
    await file?.close();
    throw error;
  }
}

/** Resolves with the offset of the end of the last complete line. */
export async function endOfLines(file: FileHandle): Promise<number> {
  let position = (await file.stat()).size;
  while (position > 0) {
    const block = await read(file, Math.max(0, position - BLOCK_BYTES), position);
    const newline = block.lastIndexOf(NEWLINE);
    if (newline !== -1) return position - block.length + newline + 1;
    // Nothing: the file was truncated meanwhile.
    position -= block.length === 0 ? position : block.length;
  }
  return 0;
}

/**
 * Resolves with the last `count` wanted lines before `end`, oldest first. Reads blocks backwards, so that the cost does
 * not depend on the size of the file.
 */
export async function lastLines(file: FileHandle, end: number, count: number, wanted: IsWanted): Promise<string[]> {
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
    const bytes = Buffer.concat([await read(file, from, position), rest]);
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

/**
 * Yields each new line of `path`, across rotations, continuing at `start`, whose file it closes. Ends only by a return
 * or with the reason of `signal`.
 */
export async function* follow(
  path: string,
  start: OpenLog | undefined,
  signal?: AbortSignal,
): AsyncGenerator<string, never, undefined> {
  let current = start;
  try {
    for (;;) {
      signal?.throwIfAborted();
      if (current !== undefined) {
        const { lines, position } = await readOn(current);
        current = { ...current, position };
        yield* lines;
        if (lines.length > 0) continue;
      }
      if (current === undefined || (await isReplaced(path, current))) {
        const next = await successor(path, current?.file);
        await current?.file.close();
        current = next === undefined ? undefined : { file: next, position: 0 };
        if (current !== undefined) continue;
      }
      // Rejects only when it is aborted, which the next round reports.
      await sleep(POLL_MS, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    }
  } finally {
    await current?.file.close();
  }
}

/** Opens the file that succeeds `file`; not always the newest, because the log may have rotated more than once. */
async function successor(path: string, file: FileHandle | undefined): Promise<FileHandle | undefined> {
  const ino = (await file?.stat())?.ino;
  for (let n = 1; ino !== undefined && n <= OLDER_FILES; n++) {
    const older = await statOf(`${path}.${String(n)}`);
    if (older === undefined) break;
    if (older.ino === ino) return await openLog(n === 1 ? path : `${path}.${String(n - 1)}`);
  }
  return await openLog(path);
}

/** Resolves with new lines and the offset after them: the end of the last complete line that was read. */
async function readOn({ file, position }: OpenLog): Promise<{ lines: string[]; position: number }> {
  const { size } = await file.stat();
  const at = size < position ? 0 : position;
  for (let length = TURN_BYTES; ; length *= 2) {
    const bytes = await read(file, at, Math.min(size, at + length));
    const lines: string[] = [];
    let from = 0;
    for (let newline = bytes.indexOf(NEWLINE); newline !== -1; newline = bytes.indexOf(NEWLINE, from)) {
      lines.push(bytes.toString('utf8', from, newline));
      from = newline + 1;
    }
    if (lines.length > 0 || at + length >= size) return { lines, position: at + from };
  }
}

/** True if another file has replaced the open one, which has been read completely. */
async function isReplaced(path: string, { file, position }: OpenLog): Promise<boolean> {
  const there = await statOf(path);
  if (there === undefined) return false;
  const { ino, size } = await file.stat();
  return there.ino !== ino && size <= position;
}

async function statOf(path: string): Promise<{ readonly ino: number } | undefined> {
  return await stat(path).catch(ifMissing(undefined));
}

async function read(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.alloc(to - from);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
  return bytes.subarray(0, bytesRead);
}
