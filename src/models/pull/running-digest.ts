/**
 * SHA-256 of a file that is downloaded in several concurrent ranges. Bytes that arrive in order are hashed as they
 * pass; others are read back from the file when their turn comes, usually from the page cache. After the last byte
 * only a few ranges remain to be hashed.
 */
import { createHash, type Hash } from 'node:crypto';
import type { PartialFile } from './partial-file.ts';

const READ_BYTES = 1024 * 1024;

export class RunningDigest {
  readonly #file: PartialFile;
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES);
  #hash: Hash = createHash('sha256');
  #position = 0;
  #catchingUp: Promise<void> | null = null;

  constructor(file: PartialFile) {
    this.#file = file;
  }

  get position(): number {
    return this.#position;
  }

  /** Hashes those of the bytes, about to be written at `position`, that are next. */
  pass(pieces: readonly Buffer[], position: number): void {
    if (this.#catchingUp !== null) return;
    let from = position;
    for (const piece of pieces) {
      // Bytes that come again are hashed already.
      const known = this.#position - from;
      from += piece.length;
      if (known < 0 || known >= piece.length) continue;
      this.#hash.update(piece.subarray(known));
      this.#position = from;
    }
  }

  /** Hashes the bytes present so far, one caller at a time. Resolves at the first gap, or when `signal` is aborted. */
  async catchUp(signal: AbortSignal): Promise<void> {
    while (this.#catchingUp !== null) await this.#catchingUp.catch(() => undefined);
    this.#catchingUp = this.#readBack(signal).finally(() => (this.#catchingUp = null));
    await this.#catchingUp;
  }

  /** Returns `sha256:…` of the hashed bytes; no more can be added. */
  finish(): string {
    return `sha256:${this.#hash.digest('hex')}`;
  }

  /** REQUIRES: no `catchUp` is running. */
  reset(): void {
    this.#hash = createHash('sha256');
    this.#position = 0;
  }

  async #readBack(signal: AbortSignal): Promise<void> {
    for (;;) {
      const available = this.#file.written.reaches(this.#position) - this.#position;
      if (available === 0 || signal.aborted) return;
      const read = await this.#file.read(this.#buffer, this.#position, Math.min(available, READ_BYTES));
      // The file is shorter than its journal says: the digest will not match.
      if (read === 0) return;
      this.#hash.update(this.#buffer.subarray(0, read));
      this.#position += read;
    }
  }
}
