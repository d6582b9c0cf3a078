/**
 * The log file: rotated by size, with a limit on old files, and complete after a crash of the daemon.
 *
 * Lines are buffered in memory and appended asynchronously in chunks, so that a slow disk never blocks the event loop.
 * The chunk in flight and the lines after it are kept until the kernel has them; at process exit `flushSync` appends
 * the rest. If a write fails (disk full, read-only, missing directory, a wrong file type), the file is opened again
 * after a pause. Lines wait meanwhile, up to a limit; the number of dropped lines is logged. The file is also opened
 * again when it was removed or moved away, since the old descriptor would write to the wrong file.
 */
import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { rename, stat, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeDirectory } from '../files/make-directory.ts';
import { ifMissing } from '../files/missing.ts';
import { openToAppend, openToAppendSync, openToReadSync } from '../files/open-file.ts';
import { StallTimer } from '../files/stall-timer.ts';
import { within } from '../files/within.ts';
import { whyOf } from '../files/why.ts';
import type { LogDestination } from './log.ts';

export interface LogFileOptions {
  /** The file is rotated once it has this size. */
  readonly maxBytes?: number;
  /** Number of older files kept: `daemon.log.1` is the newest. */
  readonly keep?: number;
}

const MAX_BYTES = 10 * 1024 * 1024;
const KEEP = 4;
const WAITING_BYTES = 4 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const REOPEN_AFTER_MS = 2000;
/** Interval at which `close` looks whether a write has stalled. */
const CLOSE_CHECK_MS = 1000;

/** The open file. */
interface Current {
  readonly handle: FileHandle;
  /** Inode of the path when it was opened. */
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
  /** The chunk passed to the kernel and not confirmed yet. */
  #underWay: Buffer = Buffer.alloc(0);
  /** Runs while a write is in flight. A stalled one is not awaited at exit. */
  readonly #stall = new StallTimer();
  #failure: string | null = null;
  #pumping: Promise<void> | null = null;
  #reopenTimer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(path: string, options: LogFileOptions = {}) {
    this.#path = path;
    this.#options = { maxBytes: options.maxBytes ?? MAX_BYTES, keep: options.keep ?? KEEP };
  }

  /** The error that keeps lines out of the file. null: none. */
  get trouble(): string | null {
    if (this.#failure !== null) return this.#failure;
    return this.#stall.isStalled ? `${this.#path} has not taken a line for a second or more` : null;
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

  /** For process exit: synchronously appends all lines that are not confirmed to be in the file. */
  flushSync(): void {
    const chunk = this.#underWay;
    const rest = Buffer.from(this.#waiting.join('') + this.#takeLoss());
    this.#underWay = Buffer.alloc(0);
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#append(chunk.length > 0 && !this.#endsWith(chunk) ? Buffer.concat([chunk, rest]) : rest);
  }

  /** Resolves when every line is in the file, or a write failed or stalled. Later lines are written synchronously. */
  async close(): Promise<void> {
    if (this.#closed) return;
    while (this.#pumping !== null && !this.#stall.isStalled) {
      await within(CLOSE_CHECK_MS, this.#pumping);
    }
    this.#closed = true;
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    this.flushSync();
    if (!this.#stall.isStalled) await this.#drop();
  }

  #start(): void {
    if (this.#closed || this.#pumping !== null || this.#reopenTimer !== null || !this.#hasWork()) return;
    this.#pumping = this.#pump();
  }

  #hasWork(): boolean {
    return this.#underWay.length > 0 || this.#waiting.length > 0;
  }

  /** Writes until no line waits, or a write fails. Never rejects. REQUIRES: there is work. */
  async #pump(): Promise<void> {
    try {
      while (!this.#closed && this.#hasWork()) {
        if (this.#underWay.length === 0) this.#underWay = Buffer.from(this.#takeChunk());
        await this.#writeOut();
        this.#failure = null;
      }
    } catch (error) {
      this.#failure = `cannot write the log: ${whyOf(error)}`;
      this.#stall.stop();
      await this.#drop();
      this.#reopenTimer = setTimeout(() => {
        this.#reopenTimer = null;
        this.#start();
      }, REOPEN_AFTER_MS).unref();
    }
    // Set in the same turn as the last check for waiting lines, so that a later line starts a new pump.
    this.#pumping = null;
  }

  /** Writes the chunk in flight, and removes the bytes that the kernel has taken from it. */
  async #writeOut(): Promise<void> {
    this.#stall.restart();
    const file = await this.#ready();
    while (this.#underWay.length > 0) {
      this.#stall.restart();
      const { bytesWritten } = await file.handle.write(this.#underWay);
      file.size += bytesWritten;
      this.#underWay = this.#underWay.subarray(bytesWritten);
    }
    this.#stall.stop();
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

  /** Returns and resets the line with the number of dropped lines; empty: none were dropped. */
  #takeLoss(): string {
    if (this.#dropped === 0) return '';
    const msg = `${String(this.#dropped)} log lines were dropped: they could not be written to disk`;
    this.#dropped = 0;
    return `${JSON.stringify({ level: 'error', time: new Date().toISOString(), msg })}\n`;
  }

  /** Returns the open file. Opens it again if the path has another file now; rotates it if it is full. */
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
      await rename(newer, `${this.#path}.${String(n)}`).catch(ifMissing(undefined));
    }
  }

  /** Closes the open file. Never rejects. */
  async #drop(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.handle.close().catch(() => undefined);
  }

  #append(text: Buffer): void {
    if (text.length === 0 || this.#stall.isStalled) return;
    try {
      const descriptor = openToAppendSync(this.#path);
      try {
        for (let bytes = text; bytes.length > 0;) bytes = bytes.subarray(writeSync(descriptor, bytes));
      } finally {
        closeSync(descriptor);
      }
    } catch {
      // The write failed and the process is ending: the error cannot be reported.
    }
  }

  /** True if the file ends with `expected`: an unconfirmed write may have succeeded. */
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

/** Returns null if there is no file. */
async function inodeOf(path: string): Promise<number | null> {
  return await stat(path).then(({ ino }) => ino, ifMissing(null));
}
