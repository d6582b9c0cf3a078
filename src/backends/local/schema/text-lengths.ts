/** Counts the characters of the texts of a grammar. */

/** Fewest and most characters; the latter may be Infinity. */
type Lengths = readonly [fewest: number, most: number];

const TOKEN = /"((?:[^"\\]|\\x..|\\.)*)"|\[(?:[^\]\\]|\\.)*\]|[|()*+?]|\{(\d+)(,?)(\d*)\}/gu;

/** Lengths of the texts of a GBNF expression. REQUIRES: it names no rules. */
export function lengthsOf(expression: string): Lengths {
  return new LengthReader(expression).choice();
}

class LengthReader {
  readonly #tokens: readonly RegExpExecArray[];
  #at = 0;

  constructor(expression: string) {
    this.#tokens = [...expression.matchAll(TOKEN)];
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
      const token = this.#tokens[this.#at];
      if (token === undefined || token[0] === '|' || token[0] === ')') return [fewest, most];
      this.#at += 1;
      const [low, high] = this.#atom(token);
      const [least, times] = this.#times();
      fewest += low * least;
      // Infinity * 0 is not a number.
      most += high === 0 || times === 0 ? 0 : high * times;
    }
  }

  #atom([token, text]: RegExpExecArray): Lengths {
    if (token === '(') {
      const inner = this.choice();
      this.#at += 1;
      return inner;
    }
    if (text === undefined) return [1, 1];
    const { length } = [...text.replace(/\\(?:x..|.)/gu, ' ')];
    return [length, length];
  }

  #times(): Lengths {
    const [quantifier, , least, comma, most = ''] = this.#tokens[this.#at] ?? [''];
    if (!/^[*+?{]/.test(quantifier)) return [1, 1];
    this.#at += 1;
    if (least === undefined) return [quantifier === '+' ? 1 : 0, quantifier === '?' ? 1 : Infinity];
    return [Number(least), comma === '' ? Number(least) : most === '' ? Infinity : Number(most)];
  }

  #take(token: string): boolean {
    if (this.#tokens[this.#at]?.[0] !== token) return false;
    this.#at += 1;
    return true;
  }
}
