/**
 * The journal of a background response: a file to which everything is appended, and synced, before a client sees it.
 * Its lines are JSON: the request, then the events of the answer in groups, then the end, then that the end is stored.
 *
 * The events of a group are those that a reader gets at once. With `tokens`, another engine can go on behind the group.
 * What a crash leaves of a line was shown to nobody: it is cut off.
 */
import { stat, truncate, type FileHandle } from 'node:fs/promises';
import { openToAppend, openToRead } from '../../files/open-file.ts';
import { errorOfFiles } from '../../files/svc-error.ts';
import type { Caller } from '../../protocol/caller.ts';
import type { ErrorRecord } from '../../protocol/errors.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';
import type { GenerateEvent, RouteEvent } from '../../protocol/generate.ts';
import type { ContentItem } from '../../protocol/openai/responses/items.ts';

/** What a response is made from. */
export interface RequestLine {
  readonly version: 1;
  readonly id: string;
  readonly caller: Caller;
  /** Milliseconds since 1970. */
  readonly created_at: number;
  /** For the sampler. */
  readonly seed: number;
  /** The request as it came, without its input. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The whole conversation. */
  readonly items: readonly ContentItem[];
}

export interface GroupLine {
  readonly events: readonly (RouteEvent | GenerateEvent)[];
  readonly tokens: readonly number[];
}

export interface EndLine {
  readonly end: {
    /** Milliseconds since 1970. */
    readonly at: number;
    /** Absent: it was cancelled, or failed with `error`. */
    readonly finish?: Extract<GenerateEvent, { type: 'finish' }>;
    readonly error?: ErrorRecord;
  };
}

/** The record with the end is stored. */
export interface StoredLine {
  readonly stored: true;
}

export type JournalLine = RequestLine | GroupLine | EndLine | StoredLine;

/** Long enough for the last line of a journal that is complete. */
const TAIL_BYTES = 64;

export class Journal {
  readonly #file: FileHandle;
  #bytes: number;

  private constructor(file: FileHandle, bytes: number) {
    this.#file = file;
    this.#bytes = bytes;
  }

  /** Opens the file behind its last whole line. Rejects with CANNOT_WRITE. */
  static async open(path: string, bytes: number): Promise<Journal> {
    try {
      const file = await openToAppend(path);
      await truncate(path, bytes);
      return new Journal(file, bytes);
    } catch (error) {
      throw errorOfFiles(error);
    }
  }

  /** Bytes on disk. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when the line is on disk. Rejects with CANNOT_WRITE. */
  async append(line: JournalLine): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    try {
      await this.#file.appendFile(bytes);
      await this.#file.datasync();
    } catch (error) {
      throw errorOfFiles(error);
    }
    this.#bytes += bytes.length;
  }

  async close(): Promise<void> {
    await this.#file.close().catch(() => undefined);
  }
}

/** Bytes [begin, end) of a journal; without `end` up to its last whole line. A missing file counts as empty. */
export async function readJournal(
  path: string,
  begin: number,
  end?: number,
): Promise<{ readonly lines: readonly JournalLine[]; readonly end: number }> {
  const bytes = await readBytes(path, begin, end ?? Infinity);
  const whole = bytes.subarray(0, bytes.lastIndexOf('\n') + 1);
  const lines: JournalLine[] = [];
  let at = 0;
  for (let next = whole.indexOf('\n'); next >= 0; next = whole.indexOf('\n', at)) {
    const line = parsedJson(whole.toString('utf8', at, next));
    // Damaged: nothing behind it can be trusted.
    if (typeof line !== 'object' || line === null) break;
    lines.push(line as JournalLine);
    at = next + 1;
  }
  return { lines, end: begin + at };
}

/** True if nothing is left to do for the journal. */
export async function isSettled(path: string): Promise<boolean> {
  const size = await sizeOf(path);
  const tail = await readBytes(path, Math.max(0, size - TAIL_BYTES), size);
  return tail.toString('utf8').endsWith(`\n${JSON.stringify({ stored: true })}\n`);
}

async function readBytes(path: string, begin: number, end: number): Promise<Buffer> {
  try {
    const last = Math.min(end, await sizeOf(path));
    const bytes = Buffer.alloc(Math.max(0, last - begin));
    if (bytes.length === 0) return bytes;
    const file = await openToRead(path);
    try {
      const { bytesRead } = await file.read(bytes, 0, bytes.length, begin);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw errorOfFiles(error);
  }
}

async function sizeOf(path: string): Promise<number> {
  return await stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}
