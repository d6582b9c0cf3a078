/**
 * A file that is being fetched, and the journal of what of it has come:
 *
 *   <cache>/downloads/sha256-<digest>.part      the bytes, each where it belongs
 *   <cache>/downloads/sha256-<digest>.journal   {"version":1,…} and then `from to` and `etag "…"` lines
 *
 * Named after the content that it is to have: whoever wants the same content goes on with it, whatever
 * it was called and wherever it lay. A stretch is written down after its bytes were handed to the
 * system, so a process may be killed at any time; what it loses was never written down. A power cut
 * may take bytes that were: the digest finds that out, and they are fetched anew.
 */
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import { makeDirectory } from '../../files/make-directory.ts';
import { openToAppend, readText } from '../../files/open-file.ts';
import { cannotWrite } from '../registry.ts';
import { Ranges } from './ranges.ts';

export interface PartialFacts {
  readonly digest: string;
  readonly sizeBytes: number;
  /** What it was fetched for, in the words of its ids: for those who look at the journal. */
  readonly model: string;
}

const HeaderSchema = v.object({
  version: v.literal(1),
  digest: v.string(),
  size_bytes: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  model: v.string(),
});

/** The one place where paths of downloads come from; made of a checked digest alone. */
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

/** null: there is none, or none that can be used. A line that was cut off by a crash ends it. */
export async function readJournal(path: string): Promise<Journal | null> {
  const text = await readText(path).catch(() => '');
  const lines = text.split('\n');
  // Without its line break a line is not whole.
  lines.pop();
  const header = v.safeParse(HeaderSchema, parseLine(lines.shift() ?? ''));
  if (!header.success) return null;
  const { digest, size_bytes, model } = header.output;
  const ranges = new Ranges();
  let etag: string | null = null;
  for (const line of lines) {
    const [, from, to] = /^(\d{1,15}) (\d{1,15})$/.exec(line) ?? [];
    if (from !== undefined && Number(to) <= size_bytes) ranges.add(Number(from), Number(to));
    else if (line.startsWith('etag ')) etag = line.slice('etag '.length) || null;
    else break;
  }
  return { facts: { digest, sizeBytes: size_bytes, model }, ranges, etag };
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
  /** Written, whether or not it stands in the journal yet. */
  readonly written: Ranges = new Ranges();

  private constructor(dir: string, facts: PartialFacts) {
    this.#dir = dir;
    this.#facts = facts;
    this.#paths = downloadPaths(dir, facts.digest);
  }

  /** Goes on with what is there. REQUIRES: the caller holds the lock of the digest. @throws SvcError CANNOT_WRITE */
  static async open(dir: string, facts: PartialFacts): Promise<PartialFile> {
    const partial = new PartialFile(dir, facts);
    await partial.#guard(() => partial.#open());
    return partial;
  }

  /** Of the server's file, as it was when the first bytes came. */
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

  /** Returns how many bytes of the file are there that were not. */
  async write(pieces: Buffer[], position: number): Promise<number> {
    const added = await this.#guard(async () => {
      const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
      const { bytesWritten } = await this.#file.writev(pieces, position);
      // A disk that is nearly full takes a part.
      if (bytesWritten < length) {
        const rest = Buffer.concat(pieces).subarray(bytesWritten);
        await this.#file.write(rest, 0, rest.length, position + bytesWritten);
      }
      this.#unsynced += length;
      const before = this.written.bytes;
      this.written.add(position, position + length);
      return this.written.bytes - before;
    });
    // So that little is left to do at the end. Nobody waits for it, and the last one tells what went wrong.
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

  /** From now on this stretch outlives the process. */
  async note(from: number, to: number): Promise<void> {
    if (from < to) await this.#guard(() => this.#journal.appendFile(`${from} ${to}\n`));
  }

  async read(buffer: Buffer, position: number, length: number): Promise<number> {
    return (await this.#file.read(buffer, 0, length, position)).bytesRead;
  }

  /** Begins anew. */
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

  /** Idempotent. What has come stays. */
  async close(): Promise<void> {
    await Promise.all([this.#file, this.#journal].map((handle) => handle.close().catch(() => undefined)));
  }

  async #open(): Promise<void> {
    await makeDirectory(this.#dir);
    const known = await readJournal(this.#paths.journal);
    // Made when it is not there, and never cut.
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

  /** Joined stretches, in place of thousands of small ones and of a line that was cut off. */
  async #rewrite(): Promise<void> {
    await this.#journal.truncate(0);
    await this.#writeHeader();
    const lines = Array.from(this.written, ({ from, to }) => `${from} ${to}\n`);
    await this.#journal.appendFile(`${this.#etag === null ? '' : `etag ${this.#etag}\n`}${lines.join('')}`);
  }

  async #writeHeader(): Promise<void> {
    const { digest, sizeBytes, model } = this.#facts;
    await this.#journal.appendFile(`${JSON.stringify({ version: 1, digest, size_bytes: sizeBytes, model })}\n`);
  }

  async #guard<Result>(act: () => Promise<Result>): Promise<Result> {
    try {
      return await act();
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    }
  }
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
