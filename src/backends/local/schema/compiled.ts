/**
 * What was compiled for the last requests: an agent sends the same tools with every turn, a program the same schema
 * with every question. Compiling takes milliseconds of the daemon's one thread.
 */

import { orElse } from '../../../protocol/foreign-text.ts';

/** A client may have a few agents. The engine keeps as many formats of answers (answer_formats.h). */
const MOST = 8;
/** Length of the JSON of all entries but the last used; the compiled text is up to twelve times as long. */
const MOST_CHARACTERS = 1_048_576;

export class Compiled<Made> {
  /** By the JSON that it is made of; the last used is last. */
  readonly #kept = new Map<string, Made>();

  /** Returns what `compile` has made of the same `source`, which is written as JSON. Passes its errors on. */
  of<Source>(source: Source, compile: (source: Source) => Made): Made {
    const text = orElse(() => JSON.stringify(source), null);
    // It nests too deep for the stack: `compile` says so.
    if (text === null) return compile(source);
    const made = this.#kept.get(text) ?? compile(source);
    this.#kept.delete(text);
    this.#dropOldest();
    this.#kept.set(text, made);
    return made;
  }

  /** Makes room for one. */
  #dropOldest(): void {
    let characters = [...this.#kept.keys()].reduce((sum, { length }) => sum + length, 0);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size < MOST && characters <= MOST_CHARACTERS) break;
      this.#kept.delete(oldest);
      characters -= oldest.length;
    }
  }
}
