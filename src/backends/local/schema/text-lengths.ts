/** Counts the characters of the texts of a grammar. */

/** Fewest and most characters; the latter may be Infinity. */
type Lengths = readonly [fewest: number, most: number];

/** Lengths of the texts of a GBNF expression. REQUIRES: it is valid and names no rules. */
export function lengthsOf(expression: string): Lengths {
  return new LengthReader(expression).choice();
}

class LengthReader {
  readonly #characters: readonly string[];
  #at = 0;

  constructor(expression: string) {
    this.#characters = [...expression];
  }

  choice(): Lengths {
    let [fewest, most] = this.#sequence();
    while (this.#take('|')) {
      const [low, high] = this.#sequence();
      [fewest, most] = [Math.min(fewest, low), Math.max(most, high)];
    }
    return [fewest, most];
  }

  #sequence(): Lengths {
    let [fewest, most] = [0, 0];
    for (;;) {
      while (this.#take(' '));
      if (['|', ')', undefined].includes(this.#characters[this.#at])) return [fewest, most];
      const [low, high] = this.#atom();
      const [least, times] = this.#times();
      fewest += low * least;
      // Infinity * 0 is not a number.
      most += high === 0 || times === 0 ? 0 : high * times;
    }
  }

  #atom(): Lengths {
    if (this.#take('(')) {
      const inner = this.choice();
      this.#take(')');
      return inner;
    }
    const isClass = this.#take('[');
    if (!isClass) this.#take('"');
    const length = this.#until(isClass ? ']' : '"');
    return isClass ? [1, 1] : [length, length];
  }

  #times(): Lengths {
    if (this.#take('*')) return [0, Infinity];
    if (this.#take('+')) return [1, Infinity];
    if (this.#take('?')) return [0, 1];
    if (!this.#take('{')) return [1, 1];
    const start = this.#at;
    this.#until('}');
    const [least = '', most = least] = this.#characters
      .slice(start, this.#at - 1)
      .join('')
      .split(',');
    return [Number(least), most === '' ? Infinity : Number(most)];
  }

  /** Skips a literal or a class with its `end`. Returns how many characters are written in it. */
  #until(end: string): number {
    let count = 0;
    for (; this.#at < this.#characters.length && !this.#take(end); count++) {
      // An escape is a backslash and one character; \x has two digits after it.
      if (this.#take('\\') && this.#characters[this.#at] === 'x') this.#at += 2;
      this.#at += 1;
    }
    return count;
  }

  #take(character: string): boolean {
    if (this.#characters[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }
}
