/**
 * The SHA-256 of a file whose bytes come in several streams at once: of those that come in order as
 * they pass, of the others read back when their turn has come, while the page cache still has them.
 * With the last byte there it takes no more than a few parts to be done.
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

  /** Bytes that are about to be written at `position`. They are taken only if it is their turn. */
  pass(pieces: readonly Buffer[], position: number): void {
    if (this.#catchingUp !== null || position !== this.#position) return;
    for (const piece of pieces) {
      this.#hash.update(piece);
      this.#position += piece.length;
    }
  }

  /** Reads what is there by now, one caller after the other. Resolves when it has met a gap, or `signal` is aborted. */
  async catchUp(signal: AbortSignal): Promise<void> {
    while (this.#catchingUp !== null) await this.#catchingUp.catch(() => undefined);
    this.#catchingUp = this.#readBack(signal).finally(() => (this.#catchingUp = null));
    await this.#catchingUp;
  }

  /** `sha256:…` of what was read; nothing more can be added. */
  finish(): string {
    return `sha256:${this.#hash.digest('hex')}`;
  }

  /** REQUIRES: no `catchUp` is under way. */
  reset(): void {
    this.#hash = createHash('sha256');
    this.#position = 0;
  }

  async #readBack(signal: AbortSignal): Promise<void> {
    for (;;) {
      const available = this.#file.written.reaches(this.#position) - this.#position;
      if (available === 0 || signal.aborted) return;
      const read = await this.#file.read(this.#buffer, this.#position, Math.min(available, READ_BYTES));
      // Shorter than its journal: the digest will not be the right one.
      if (read === 0) return;
      this.#hash.update(this.#buffer.subarray(0, read));
      this.#position += read;
    }
  }
}
