/**
 * Unpacks chosen files of an npm tarball (tar, gzip). The digest of the tarball is verified before; the limits here
 * hold for any tarball. Entries other than files and directories, paths outside `package/`, and sizes above the limits
 * are refused, and nothing is executed.
 */
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { createGunzip } from 'node:zlib';
import { SvcError } from '../protocol/errors.ts';

const UNPACK_LIMITS = { entries: 1000, bytes: 2 ** 30 };

const BLOCK = 512;
/** Type flags of tar: file, and directory. */
const FILES = new Set(['0', '\0']);
const DIRECTORY = '5';
const ROOT = 'package/';

interface Entry {
  readonly path: string;
  readonly isFile: boolean;
  readonly size: number;
}

/**
 * Writes files of `tarball` to `folder`, which exists.
 * @param wanted path in the package, and name in the folder
 * @throws SvcError INPUT_INVALID: a damaged tarball, one beyond the limits, or without a wanted file; errors of files
 */
export async function unpack(tarball: string, folder: string, wanted: ReadonlyMap<string, string>): Promise<void> {
  const input = createReadStream(tarball);
  const unzipped = input.pipe(createGunzip());
  input.on('error', (error) => unzipped.destroy(error));
  const blocks = new Blocks(unzipped);
  const missing = new Set(wanted.keys());
  let total = 0;
  try {
    for (let count = 0; ; count += 1) {
      const header = await blocks.take(BLOCK);
      if (header.every((byte) => byte === 0)) break;
      const entry = readHeader(header);
      total += entry.size;
      if (count === UNPACK_LIMITS.entries) throw invalid(`more than ${String(UNPACK_LIMITS.entries)} entries`);
      if (total > UNPACK_LIMITS.bytes) throw invalid(`more than ${String(UNPACK_LIMITS.bytes)} bytes`);
      const path = entry.path.slice(ROOT.length);
      const name = entry.isFile && missing.delete(path) ? wanted.get(path) : undefined;
      await copy(blocks, entry.size, name === undefined ? null : join(folder, name));
      await blocks.skip((BLOCK - (entry.size % BLOCK)) % BLOCK);
    }
  } catch (error) {
    if (typeof (error as NodeJS.ErrnoException).code === 'string' && /^Z_/.test((error as { code: string }).code)) {
      throw invalid('invalid gzip data', error);
    }
    throw error;
  } finally {
    input.destroy();
    unzipped.destroy();
  }
  const [lacks] = missing;
  if (lacks !== undefined) throw invalid(`no file ${lacks}`);
}

/** Writes the next bytes to a new file, or drops them. */
async function copy(blocks: Blocks, size: number, path: string | null): Promise<void> {
  if (path === null) {
    await blocks.skip(size);
    return;
  }
  const file = await open(path, 'wx', 0o600);
  try {
    for (let left = size; left > 0;) {
      const piece = await blocks.some(left);
      await file.writeFile(piece);
      left -= piece.length;
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** @throws SvcError INPUT_INVALID */
function readHeader(header: Buffer): Entry {
  const textAt = (start: number, length: number): string =>
    header.toString('utf8', start, start + length).replace(/\0.*$/s, '');
  const numberAt = (start: number, length: number): number => {
    const digits = textAt(start, length).trim();
    return /^[0-7]{1,11}$/.test(digits) ? Number.parseInt(digits, 8) : NaN;
  };
  const sum = header.reduce((all, byte, index) => all + (index >= 148 && index < 156 ? 0x20 : byte), 0);
  if (numberAt(148, 8) !== sum) throw invalid('a header with a wrong checksum');
  const prefix = textAt(345, 155);
  const path = prefix === '' ? textAt(0, 100) : `${prefix}/${textAt(0, 100)}`;
  const type = header.toString('latin1', 156, 157);
  const size = numberAt(124, 12);
  const isFile = FILES.has(type);
  if (!isFile && type !== DIRECTORY) throw invalid('an entry that is neither a file nor a directory');
  if (Number.isNaN(size) || (!isFile && size !== 0)) throw invalid('an entry of invalid size');
  const isInside = path.startsWith(ROOT) && !path.includes('\\') && !path.split('/').includes('..');
  if (!isInside) throw invalid('an entry with a path outside the package');
  return { path, isFile, size };
}

/** A stream of bytes, taken in pieces of given sizes. */
class Blocks {
  readonly #pieces: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#pieces = stream[Symbol.asyncIterator]();
  }

  /** Resolves with 1 to `most` bytes. */
  async some(most: number): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const next = await this.#pieces.next();
      if (next.done === true) throw invalid('its end is missing');
      this.#rest = next.value;
    }
    const piece = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async take(count: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let left = count; left > 0; left -= (pieces.at(-1) as Buffer).length) pieces.push(await this.some(left));
    return Buffer.concat(pieces);
  }

  async skip(count: number): Promise<void> {
    for (let left = count; left > 0;) left -= (await this.some(left)).length;
  }
}

function invalid(what: string, cause?: unknown): SvcError {
  return new SvcError('INPUT_INVALID', `the package cannot be unpacked: ${what}`, { cause });
}
