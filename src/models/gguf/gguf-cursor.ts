/** Reads numbers and text from untrusted bytes. */
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { GGUF_LIMITS } from './gguf-limits.ts';

/** Thrown when a read goes past the bytes read so far but not past the end of the file. */
export const MORE = new Error('the header goes on');

/** A position in the bytes. Each read is checked against the file first, then against the bytes read so far. */
export class Cursor {
  readonly fileBytes: number;
  offset = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #name: string;

  constructor(bytes: Uint8Array, fileBytes: number, name: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#name = name;
    this.fileBytes = fileBytes;
  }

  invalid(what: string, hint?: string): SvcError {
    return new SvcError('MODEL_INVALID', `${this.#name} ${what}`, given({ hint }));
  }

  /** The first bytes as text, without moving; shorter only when the file is. */
  peek(length: number): string {
    const end = Math.min(length, this.fileBytes);
    if (end > this.#bytes.length) throw MORE;
    return latin1.decode(this.#bytes.subarray(0, end));
  }

  /** REQUIRES: `length` is a safe integer. */
  skip(length: number): number {
    const start = this.offset;
    const end = start + length;
    if (end > this.fileBytes) throw this.invalid('is cut short inside its header', 'fetch the file again');
    if (end > GGUF_LIMITS.headerBytes) throw this.invalid(`has a header of more than ${GGUF_LIMITS.headerBytes} bytes`);
    if (end > this.#bytes.length) throw MORE;
    this.offset = end;
    return start;
  }

  view(length: number): DataView {
    const start = this.skip(length);
    return new DataView(this.#view.buffer, this.#view.byteOffset + start, length);
  }

  uint32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  /** Returns Infinity for a value above 2^53. */
  uint64(): number {
    const start = this.skip(8);
    const high = this.#view.getUint32(start + 4, true);
    return high > 0x1f_ffff ? Infinity : high * 0x1_0000_0000 + this.#view.getUint32(start, true);
  }

  /** Reads a count of items of at least `itemBytes` each. */
  count(what: string, itemBytes: number, limit: number): number {
    const count = this.uint64();
    if (count > limit || count * itemBytes > this.fileBytes - this.offset) {
      const claim = Number.isFinite(count) ? String(count) : 'more than 2^53';
      throw this.invalid(`is damaged: it claims ${claim} ${what}, more than can be in it`);
    }
    return count;
  }

  length(what: string): number {
    const length = this.uint64();
    if (length > this.fileBytes - this.offset) {
      throw this.invalid(`is cut short or damaged: ${what} is longer than the rest of the file`);
    }
    return length;
  }

  string(what: string, limit: number): string {
    const length = this.length(what);
    if (length > limit) throw this.invalid(`is damaged: ${what} is ${length} bytes long`);
    const start = this.skip(length);
    return this.text(start, start + length);
  }

  /** REQUIRES: the bytes were read. */
  text(start: number, end: number): string {
    return utf8.decode(this.#bytes.subarray(start, end));
  }
}

// Keeps a byte-order mark: libllama also reads it as a part of the name.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const latin1 = new TextDecoder('latin1');

/** Quotes a name from the file for one line of a terminal. */
export function quoted(text: string): string {
  const short = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return JSON.stringify(short).replace(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '?');
}
