/**
 * Measures the cost of parsing JSON while its bytes arrive: the nesting depth and the number of values. Only bytes
 * between strings are examined one by one; a string is skipped from quote to quote. Invalid JSON gets some number: the
 * parser rejects it.
 */

import { SvcError } from '../protocol/errors.ts';

/** Limit of nested brackets and braces. */
export const MAX_DEPTH = 64;
/**
 * Limit of values. Ten thousand messages have sixty thousand values. Millions of tiny values, which fit into a body,
 * would block the daemon's event loop for many seconds.
 */
export const MAX_VALUES = 100_000;
/**
 * Upper bounds of the memory of a parsed list, object or key, and of any other value. An object of one field takes some
 * hundred bytes, and there are up to three copies of it: as it was sent, as it was checked, as it is passed on.
 */
export const STRUCTURE_BYTES = 320;
export const SCALAR_BYTES = 32;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
/** `[` and `{`, and `]` and `}`, differ in this bit only. */
const CURLY = 0x20;
const OPEN = 0x7b;
const CLOSE = 0x7d;

export class JsonGauge {
  #depth = 0;
  #values = 1;
  #structures = 0;
  #textBytes = 0;
  #inString = false;
  /** In a string: the next byte is escaped. */
  #escaped = false;

  /** Upper bound of the values so far: an empty list counts as a list with one element. */
  get values(): number {
    return this.#values;
  }

  /** Lists, objects and keys so far: they cost the parser far more than other values of the same length. */
  get structures(): number {
    return this.#structures;
  }

  /** Bytes of memory of the parsed value. */
  get heldBytes(): number {
    return this.#textBytes + STRUCTURE_BYTES * this.#structures + SCALAR_BYTES * this.#values;
  }

  /** Measures `chunk`, the next bytes of `what`. Throws INVALID_REQUEST when there are too many values or levels. */
  check(chunk: Buffer, what: string): void {
    if (this.measure(chunk) > MAX_DEPTH) {
      throw new SvcError('INVALID_REQUEST', `${what} is nested deeper than ${String(MAX_DEPTH)} levels`);
    }
    if (this.#values > MAX_VALUES) {
      throw new SvcError('INVALID_REQUEST', `${what} has more than ${String(MAX_VALUES)} values`);
    }
  }

  /** Measures `chunk`, the next bytes; returns the greatest depth in it. */
  measure(chunk: Buffer): number {
    let deepest = this.#depth;
    for (let at = 0; at < chunk.length;) {
      if (this.#inString) {
        const from = at;
        at = this.#skipString(chunk, from);
        this.#textBytes += at - from;
        continue;
      }
      const byte = chunk[at] as number;
      at += 1;
      if (byte === QUOTE) this.#inString = true;
      else if (byte === COMMA) this.#values += 1;
      else if (byte === COLON) this.#structures += 1;
      else if ((byte | CURLY) === OPEN) {
        this.#values += 1;
        this.#structures += 1;
        deepest = Math.max(deepest, (this.#depth += 1));
      } else if ((byte | CURLY) === CLOSE) this.#depth -= 1;
    }
    return deepest;
  }

  /** Returns the offset after the next quote, which ends the string unless it is escaped. */
  #skipString(chunk: Buffer, from: number): number {
    const quote = chunk.indexOf(QUOTE, from);
    const end = quote === -1 ? chunk.length : quote;
    let start = end;
    while (start > from && chunk[start - 1] === BACKSLASH) start -= 1;
    // A run of backslashes at the start of the chunk continues that of the previous chunk.
    const carried = start === from && this.#escaped ? 1 : 0;
    const escaped = (end - start + carried) % 2 === 1;
    this.#escaped = quote === -1 && escaped;
    this.#inString = quote === -1 || escaped;
    return end + 1;
  }
}
