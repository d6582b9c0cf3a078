/**
 * The log file: rotated by size, with a bound on what is kept, and complete after a crash.
 *
 * Lines gather in memory and go to the rotating stream as one chunk at a time, so that a slow disk
 * never blocks the event loop. The chunk under way and the lines behind it are kept until the
 * stream has confirmed them: `flushSync` appends what is not confirmed, which the exit of the
 * process calls last. When the disk refuses (full, read-only), the stream is opened anew after a
 * while; the lines of meanwhile wait up to a bound, and what had to be dropped is counted in the log.
 * So it is when somebody has removed the file or moved it away: a descriptor would write on, unseen.
 */
import { appendFileSync, closeSync, fstatSync, mkdirSync, openSync, readSync, statSync } from 'node:fs';
import { dirname, basename } from 'node:path';
import { createStream, type RotatingFileStream } from 'rotating-file-stream';
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

export class LogFile implements LogDestination {
  readonly #path: string;
  readonly #options: Required<LogFileOptions>;
  #stream: RotatingFileStream | null = null;
  /** Of the file that the stream has open; null while it opens or rotates. */
  #inode: number | null = null;
  #waiting: string[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  /** Handed to the stream, not confirmed. */
  #underWay = '';
  #reopenTimer: NodeJS.Timeout | null = null;
  #closed = false;
  #whenIdle: (() => void)[] = [];

  constructor(path: string, options: LogFileOptions = {}) {
    this.#path = path;
    this.#options = { maxBytes: options.maxBytes ?? MAX_BYTES, keep: options.keep ?? KEEP };
  }

  /** True while the disk refuses the file: lines wait, and the next attempt is due. */
  get isBlocked(): boolean {
    return this.#reopenTimer !== null;
  }

  write(line: string): void {
    if (this.#closed) {
      this.#append(line);
      return;
    }
    if (this.#waitingBytes > WAITING_BYTES) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(line);
    this.#waitingBytes += line.length;
    this.#pump();
  }

  /** For the end of the process: whatever is not surely in the file is appended to it, now. */
  flushSync(): void {
    const chunk = this.#underWay;
    const rest = this.#waiting.join('');
    this.#underWay = '';
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#append((chunk !== '' && !this.#endsWith(chunk) ? chunk : '') + rest);
  }

  /** Resolves when every line is in the file. Later lines are still written, synchronously. */
  async close(): Promise<void> {
    if (this.#closed) return;
    if (this.#stream !== null) await this.#idle();
    this.#closed = true;
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    this.flushSync();
    const stream = this.#stream;
    this.#stream = null;
    if (stream !== null) await new Promise<void>((resolve) => stream.end(() => resolve()));
  }

  /** Resolves when nothing waits any more, or when the disk refuses. */
  async #idle(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#whenIdle.push(resolve);
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#closed || this.#underWay !== '' || this.#reopenTimer !== null) return;
    const chunk = this.#takeChunk();
    if (chunk === '') {
      for (const resolve of this.#whenIdle.splice(0)) resolve();
      return;
    }
    this.#underWay = chunk;
    if (this.#isReplaced()) {
      this.#stream?.end();
      this.#stream = null;
    }
    this.#stream ??= this.#open();
    this.#stream.write(chunk, (error) => {
      if (error !== null && error !== undefined) return;
      this.#underWay = '';
      this.#pump();
    });
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
    if (chunk !== '' && this.#dropped > 0) {
      const msg = `${String(this.#dropped)} log lines were dropped: the disk did not take them`;
      chunk += `${JSON.stringify({ level: 'error', time: new Date().toISOString(), msg })}\n`;
      this.#dropped = 0;
    }
    return chunk;
  }

  #isReplaced(): boolean {
    return this.#inode !== null && this.#inode !== inodeOf(this.#path);
  }

  #open(): RotatingFileStream {
    this.#inode = null;
    try {
      // The stream would make one that others may look into.
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    } catch {
      // Told by the stream.
    }
    const stream = createStream(basename(this.#path), {
      path: dirname(this.#path),
      size: `${this.#options.maxBytes}B`,
      rotate: this.#options.keep,
      mode: 0o600,
    });
    stream.on('open', () => {
      if (this.#stream === stream) this.#inode = inodeOf(this.#path);
    });
    stream.on('rotation', () => {
      if (this.#stream === stream) this.#inode = null;
    });
    stream.on('error', () => {
      if (this.#stream !== stream) return;
      this.#inode = null;
      this.#stream = null;
      this.#waiting.unshift(this.#underWay);
      this.#waitingBytes += this.#underWay.length;
      this.#underWay = '';
      for (const resolve of this.#whenIdle.splice(0)) resolve();
      this.#reopenTimer = setTimeout(() => {
        this.#reopenTimer = null;
        this.#pump();
      }, REOPEN_AFTER_MS).unref();
    });
    return stream;
  }

  #append(text: string): void {
    if (text === '') return;
    try {
      appendFileSync(this.#path, text, { mode: 0o600 });
    } catch {
      // The disk refuses and the process is ending: there is no one left to tell.
    }
  }

  /** A write that the process did not live to see confirmed may be in the file all the same. */
  #endsWith(chunk: string): boolean {
    try {
      const expected = Buffer.from(chunk);
      const file = openSync(this.#path, 'r');
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
function inodeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? null;
}
