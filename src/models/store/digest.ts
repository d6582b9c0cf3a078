/** The SHA-256 of a model file, in one pass: while it is read, or while it is copied. */
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { openModelFile, type GgufSummary } from '../gguf/gguf.ts';

export type OnProgress = (doneBytes: number, totalBytes: number) => void;

const PIECE_BYTES = 4 * 1024 * 1024;

/** @returns `sha256:` and 64 hexadecimal digits. @throws SvcError as openModelFile */
export async function digestOf(path: string, onProgress?: OnProgress): Promise<string> {
  const file = await openModelFile(path);
  return await digestPieces(file, onProgress).finally(() => file.close());
}

/** Copies the file and syncs it to disk; returns its digest. Throws when `to` exists. */
export async function copyWithDigest(path: string, to: string, onProgress?: OnProgress): Promise<string> {
  const file = await openModelFile(path);
  try {
    const copy = await open(to, 'wx', 0o600);
    try {
      const digest = await digestPieces(file, onProgress, (piece) => copy.writeFile(piece));
      await copy.sync();
      return digest;
    } finally {
      await copy.close();
    }
  } finally {
    await file.close();
  }
}

/** Cache of file digests, by path, inode, size and modification time. The signal aborts a computation. */
export class DigestsOnce {
  readonly #signal: AbortSignal | undefined;
  readonly #known = new Map<string, Promise<string>>();

  constructor(signal?: AbortSignal) {
    this.#signal = signal;
  }

  /** @throws SvcError as digestOf; `signal.reason` */
  async of(path: string, { ino, size, mtimeMs }: Stats): Promise<string> {
    const key = [path, ino, size, mtimeMs].join(' ');
    const known = this.#known.get(key) ?? digestOf(path, () => this.#signal?.throwIfAborted());
    this.#known.set(key, known);
    return await known;
  }
}

async function digestPieces(
  file: FileHandle,
  onProgress: OnProgress | undefined,
  use?: (piece: Uint8Array) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  const { size } = await file.stat();
  const buffer = Buffer.allocUnsafe(PIECE_BYTES);
  for (let done = 0; ;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, done);
    if (bytesRead === 0) return `sha256:${hash.digest('hex')}`;
    const piece = buffer.subarray(0, bytesRead);
    hash.update(piece);
    await use?.(piece);
    done += bytesRead;
    onProgress?.(done, size);
  }
}

/** Identifies a state of a file, as far as possible without reading it. */
export function versionOf({ size_bytes, modified_at_ms }: GgufSummary): string {
  return `${size_bytes} ${modified_at_ms}`;
}
