/**
 * The log file: rotated by size, with a bound on what is kept, and complete after a crash.
 *
 * Lines gather in memory and are appended one chunk at a time, asynchronously, so that a slow disk never
 * blocks the event loop. The chunk under way and the lines behind it are kept until the kernel has
 * them: `flushSync` appends what is left, which the exit of the process calls last. When the disk
 * refuses (full, read-only, no such directory, another kind of file in the log's place), the file is
 * opened anew after a while; the lines of meanwhile wait up to a bound, and what had to be dropped is
 * counted in the log. The file is opened anew, too, when it was removed or moved away: a descriptor
 * would write on, unseen.
 */
import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { rename, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDirectory } from '../files/make-directory.ts';
import { openToAppend, openToAppendSync, openToReadSync } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import type { LogDestination } from './log.ts';

export interface LogFileOptions {
  /** The file is rotated once it has this size. */
  readonly maxBytes?: number;
  /** Older files that are kept: `daemon.log.1` is the newest. */
  readonly keep?: number;
}

const MAX_BYTES = 10 * 1024 * 1024;
const KEEP = 4;
const WAITING_BYTES = 4 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const REOPEN_AFTER_MS = 2000;
/** A write that takes longer stands still: nothing waits for it at the end, and health shows it. */
const STANDSTILL_MS = 1000;

/** The open file. */
interface Current {
  readonly handle: FileHandle;
  /** Of the path when it was opened. */
  readonly inode: number;
  size: number;
}

export class LogFile implements LogDestination {
  readonly #path: string;
  readonly #options: Required<LogFileOptions>;
  #file: Current | null = null;
  #waiting: string[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  /** Handed to the kernel, not confirmed. */
  #underWay: Buffer = Buffer.alloc(0);
  /** When the step that is under way began, by the monotonic clock; null: none is. */
  #busySince: number | null = null;
  #failure: string | null = null;
  #pumping: Promise<void> | null = null;
  #reopenTimer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(path: string, options: LogFileOptions = {}) {
    this.#path = path;
    this.#options = { maxBytes: options.maxBytes ?? MAX_BYTES, keep: options.keep ?? KEEP };
  }

  /** Why lines do not reach the file. null: they do. */
  get trouble(): string | null {
    if (this.#failure !== null) return this.#failure;
    return this.#standsStill() ? `${this.#path} has not taken a line for a second or more` : null;
  }

  write(line: string): void {
    if (this.#closed) {
      this.#append(Buffer.from(line));
      return;
    }
    if (this.#waitingBytes > WAITING_BYTES) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(line);
    this.#waitingBytes += line.length;
    this.#start();
  }

  /** For the end of the process: whatever is not surely in the file is appended to it, now. */
  flushSync(): void {
    const chunk = this.#underWay;
    const rest = Buffer.from(this.#waiting.join('') + this.#takeLoss());
    this.#underWay = Buffer.alloc(0);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#append(chunk.length > 0 && !this.#endsWith(chunk) ? Buffer.concat([chunk, rest]) : rest);
  }

  /** Resolves when every line is in the file, or the disk refuses. Later lines are still written, synchronously. */
  async close(): Promise<void> {
    if (this.#closed) return;
    while (this.#pumping !== null && !this.#standsStill()) {
      const given = new AbortController();
      const { signal } = given;
      await Promise.race([this.#pumping, sleep(STANDSTILL_MS, undefined, { signal }).catch(() => undefined)]);
      given.abort();
    }
    this.#closed = true;
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    this.flushSync();
    if (!this.#standsStill()) await this.#drop();
  }

  #start(): void {
    if (this.#closed || this.#pumping !== null || this.#reopenTimer !== null || !this.#hasWork()) return;
    this.#pumping = this.#pump();
  }

  #hasWork(): boolean {
    return this.#underWay.length > 0 || this.#waiting.length > 0;
  }

  /** Never rejects. Ends when nothing waits any more, or when the disk refuses. REQUIRES: there is work. */
  async #pump(): Promise<void> {
    try {
      while (!this.#closed && this.#hasWork()) {
        if (this.#underWay.length === 0) this.#underWay = Buffer.from(this.#takeChunk());
        await this.#writeOut();
        this.#failure = null;
      }
    } catch (error) {
      this.#failure = `cannot write the log: ${whyOf(error)}`;
      this.#busySince = null;
      await this.#drop();
      this.#reopenTimer = setTimeout(() => {
        this.#reopenTimer = null;
        this.#start();
      }, REOPEN_AFTER_MS).unref();
    }
    // In the same step as the last look at what waits: a line that comes later starts another.
    this.#pumping = null;
  }

  /** Writes what is under way: a part that the kernel has taken is not under way any more. */
  async #writeOut(): Promise<void> {
    this.#busySince = performance.now();
    const file = await this.#ready();
    while (this.#underWay.length > 0) {
      this.#busySince = performance.now();
      const { bytesWritten } = await file.handle.write(this.#underWay);
      file.size += bytesWritten;
      this.#underWay = this.#underWay.subarray(bytesWritten);
    }
    this.#busySince = null;
  }

  #takeChunk(): string {
    let chunk = '';
    let taken = 0;
    for (const line of this.#waiting) {
      if (chunk.length >= CHUNK_BYTES) break;
      chunk += line;
      taken++;
    }
    this.#waiting.splice(0, taken);
    this.#waitingBytes -= chunk.length;
    return chunk === '' ? '' : chunk + this.#takeLoss();
  }

  /** The line that counts what was dropped since it was last asked for; empty: nothing was. */
  #takeLoss(): string {
    if (this.#dropped === 0) return '';
    const msg = `${String(this.#dropped)} log lines were dropped: the disk did not take them`;
    this.#dropped = 0;
    return `${JSON.stringify({ level: 'error', time: new Date().toISOString(), msg })}\n`;
  }

  /** The file of the path, opened anew where another one lies there by now, or rotated. */
  async #ready(): Promise<Current> {
    if (this.#file !== null && this.#file.inode !== (await inodeOf(this.#path))) await this.#drop();
    if (this.#file !== null && this.#file.size >= this.#options.maxBytes) {
      await this.#drop();
      await this.#rotate();
    }
    this.#file ??= await this.#open();
    return this.#file;
  }

  async #open(): Promise<Current> {
    await makeDirectory(dirname(this.#path));
    const handle = await openToAppend(this.#path);
    const { size, ino } = await handle.stat();
    return { handle, inode: ino, size };
  }

  async #rotate(): Promise<void> {
    for (let n = this.#options.keep; n > 0; n--) {
      const newer = n === 1 ? this.#path : `${this.#path}.${String(n - 1)}`;
      await rename(newer, `${this.#path}.${String(n)}`).catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      });
    }
  }

  /** Lets the open file go. Never rejects. */
  async #drop(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.handle.close().catch(() => undefined);
  }

  #standsStill(): boolean {
    return this.#busySince !== null && performance.now() - this.#busySince >= STANDSTILL_MS;
  }

  #append(text: Buffer): void {
    if (text.length === 0 || this.#standsStill()) return;
    try {
      const descriptor = openToAppendSync(this.#path);
      try {
        for (let bytes = text; bytes.length > 0;) bytes = bytes.subarray(writeSync(descriptor, bytes));
      } finally {
        closeSync(descriptor);
      }
    } catch {
      // The disk refuses and the process is ending: there is no one left to tell.
    }
  }

  /** A write that the process did not live to see confirmed may be in the file all the same. */
  #endsWith(expected: Buffer): boolean {
    try {
      const file = openToReadSync(this.#path);
      try {
        const found = Buffer.alloc(expected.length);
        const offset = fstatSync(file).size - expected.length;
        return offset >= 0 && readSync(file, found, 0, found.length, offset) === found.length && found.equals(expected);
      } finally {
        closeSync(file);
      }
    } catch {
      return false;
    }
  }
}

/** null: there is no file. */
async function inodeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).ino;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
