/**
 * A partial download and the journal of the byte ranges that are present:
 *
 *   <cache>/downloads/sha256-<digest>.part      the bytes, at their offsets
 *   <cache>/downloads/sha256-<digest>.journal   {"version":1,…} and then `from to` and `etag "…"` lines
 *
 * Both are named after the expected content, so that any pull of the same content resumes them, whatever its name or
 * source. A range is journaled after its bytes were written to the kernel, so a process may be killed at any time: it
 * loses only ranges that are not in the journal. A power failure may lose journaled bytes: then the digest is wrong,
 * and the file is downloaded again.
 */
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { makeDirectory } from '../../files/make-directory.ts';
import { openToAppend, readText } from '../../files/open-file.ts';
import { cannotWrite } from '../store/registry.ts';
import { Ranges } from './ranges.ts';
import { parsedJson } from '../../protocol/foreign-text.ts';

export interface PartialFacts {
  readonly digest: string;
  readonly sizeBytes: number;
  /** Id of the model that the file is for; shown to users. */
  readonly model: string;
  /** Further names of the model. */
  readonly aliases: readonly string[];
}

const HeaderSchema = v.object({
  version: v.literal(1),
  digest: v.string(),
  size_bytes: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  model: v.string(),
  aliases: v.optional(v.array(v.string()), []),
});

/** Returns the paths of a download. They are made only here, and only from a checked digest. */
export function downloadPaths(dir: string, digest: string): { part: string; journal: string; lock: string } {
  const hexadecimal = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hexadecimal === undefined) throw new Error('not a digest');
  const base = join(dir, `sha256-${hexadecimal}`);
  return { part: `${base}.part`, journal: `${base}.journal`, lock: `${base}.lock` };
}

export interface Journal {
  readonly facts: PartialFacts;
  readonly ranges: Ranges;
  readonly etag: string | null;
}

/** Reads a journal. null: it is missing or unusable. A line cut off by a crash ends the journal. */
export async function readJournal(path: string): Promise<Journal | null> {
  const text = await readText(path).catch(() => '');
  const lines = text.split('\n');
  // A line without its line break is incomplete.
  lines.pop();
  const header = v.safeParse(HeaderSchema, parsedJson(lines.shift() ?? ''));
  if (!header.success) return null;
  const { digest, size_bytes, model, aliases } = header.output;
  const ranges = new Ranges();
  let etag: string | null = null;
  for (const line of lines) {
    const [, from, to] = /^(\d{1,15}) (\d{1,15})$/.exec(line) ?? [];
    if (from !== undefined && Number(to) <= size_bytes) ranges.add(Number(from), Number(to));
    else if (line.startsWith('etag ')) etag = line.slice('etag '.length) || null;
    else break;
  }
  return { facts: { digest, sizeBytes: size_bytes, model, aliases }, ranges, etag };
}

const SYNC_BYTES = 64 * 1024 * 1024;

export class PartialFile {
  readonly #facts: PartialFacts;
  readonly #paths: { readonly part: string; readonly journal: string };
  readonly #dir: string;
  #file!: FileHandle;
  #journal!: FileHandle;
  #etag: string | null = null;
  #unsynced = 0;
  #syncing = false;
  /** Ranges that were written, whether or not they are in the journal yet. */
  readonly written: Ranges = new Ranges();

  private constructor(dir: string, facts: PartialFacts) {
    this.#dir = dir;
    this.#facts = facts;
    this.#paths = downloadPaths(dir, facts.digest);
  }

  /** Opens or resumes the download. REQUIRES: the caller holds the lock of the digest. @throws SvcError CANNOT_WRITE */
  static async open(dir: string, facts: PartialFacts): Promise<PartialFile> {
    const partial = new PartialFile(dir, facts);
    await partial.#guard(() => partial.#open());
    return partial;
  }

  /** ETag of the server's file when the first bytes were received. */
  get etag(): string | null {
    return this.#etag;
  }

  get path(): string {
    return this.#paths.part;
  }

  async setEtag(etag: string | null): Promise<void> {
    if (etag === this.#etag || (etag !== null && /[\r\n]/.test(etag))) return;
    this.#etag = etag;
    await this.#guard(() => this.#journal.appendFile(`etag ${etag ?? ''}\n`));
  }

  /** Writes bytes at `position`. Returns the number of bytes that were not present before. */
  async write(pieces: Buffer[], position: number): Promise<number> {
    const added = await this.#guard(async () => {
      const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
      const { bytesWritten } = await this.#file.writev(pieces, position);
      // A short write, as on a nearly full disk.
      if (bytesWritten < length) {
        const rest = Buffer.concat(pieces).subarray(bytesWritten);
        await this.#file.write(rest, 0, rest.length, position + bytesWritten);
      }
      this.#unsynced += length;
      const before = this.written.bytes;
      this.written.add(position, position + length);
      return this.written.bytes - before;
    });
    // Sync early, so that little is left at the end. Not awaited; the final `sync` reports an error.
    if (this.#unsynced >= SYNC_BYTES && !this.#syncing) {
      this.#unsynced = 0;
      this.#syncing = true;
      void this.#file
        .datasync()
        .catch(() => undefined)
        .finally(() => (this.#syncing = false));
    }
    return added;
  }

  /** Writes the range to the journal, so that it survives the process. */
  async note(from: number, to: number): Promise<void> {
    if (from < to) await this.#guard(() => this.#journal.appendFile(`${from} ${to}\n`));
  }

  async read(buffer: Buffer, position: number, length: number): Promise<number> {
    return (await this.#file.read(buffer, 0, length, position)).bytesRead;
  }

  /** Discards all bytes. */
  async reset(): Promise<void> {
    await this.#guard(async () => {
      this.written.clear();
      this.#etag = null;
      await this.#journal.truncate(0);
      await this.#writeHeader();
      await this.#file.truncate(0);
    });
  }

  async sync(): Promise<void> {
    await this.#guard(() => this.#file.datasync());
  }

  /** Closes the files; the download can be resumed. Idempotent. */
  async close(): Promise<void> {
    await Promise.all([this.#file, this.#journal].map((handle) => handle.close().catch(() => undefined)));
  }

  async #open(): Promise<void> {
    await makeDirectory(this.#dir);
    const known = await readJournal(this.#paths.journal);
    // Created if missing, never truncated.
    this.#file = await open(this.#paths.part, 'a+', 0o600).then(async (made) => {
      await made.close();
      return await open(this.#paths.part, 'r+');
    });
    this.#journal = await openToAppend(this.#paths.journal);
    const { digest, sizeBytes } = this.#facts;
    const isSame = known?.facts.digest === digest && known.facts.sizeBytes === sizeBytes;
    const { size } = await this.#file.stat();
    if (isSame) {
      for (const { from, to } of known.ranges) this.written.add(from, Math.min(to, size));
      this.#etag = known.etag;
      await this.#rewrite();
    } else {
      await this.reset();
    }
  }

  /** Writes a compact journal: merges adjacent ranges and drops an incomplete line. */
  async #rewrite(): Promise<void> {
    await this.#journal.truncate(0);
    await this.#writeHeader();
    const lines = Array.from(this.written, ({ from, to }) => `${from} ${to}\n`);
    await this.#journal.appendFile(`${this.#etag === null ? '' : `etag ${this.#etag}\n`}${lines.join('')}`);
  }

  async #writeHeader(): Promise<void> {
    const { digest, sizeBytes, model, aliases } = this.#facts;
    const header = { version: 1, digest, size_bytes: sizeBytes, model, aliases };
    await this.#journal.appendFile(`${JSON.stringify(header)}\n`);
  }

  async #guard<Result>(act: () => Promise<Result>): Promise<Result> {
    try {
      return await act();
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    }
  }
}
