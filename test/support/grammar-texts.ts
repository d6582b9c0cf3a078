/** Random texts of a grammar that the schema compiler has written, and if it allows a given one, without an engine. */

interface Expression {
  /** Appends a text to the sample. */
  write(sample: Sample): void;
  /** Ends of its texts that begin at `at`. */
  ends(reading: Reading, at: number): ReadonlySet<number>;
}

/** Longest text, and most steps to it; a grammar may recurse without end. */
const MAX_STEPS = 3000;

class TooLong extends Error {}

class Sample {
  readonly next: () => number;
  text = '';
  #steps = 0;

  constructor(next: () => number) {
    this.next = next;
  }

  step(): void {
    if (++this.#steps > MAX_STEPS) throw new TooLong();
  }
}

class Reading {
  readonly characters: readonly string[];
  /** By rule and place. */
  readonly #known = new Map<Expression, Map<number, ReadonlySet<number>>>();

  constructor(text: string) {
    this.characters = [...text];
  }

  endsOf(rule: Expression, at: number): ReadonlySet<number> {
    const ofRule = this.#known.get(rule) ?? new Map<number, ReadonlySet<number>>();
    this.#known.set(rule, ofRule);
    const ends = ofRule.get(at) ?? rule.ends(this, at);
    ofRule.set(at, ends);
    return ends;
  }
}

function rootOf(grammar: string): Expression | undefined {
  const rules = new Map<string, Expression>();
  const lines = grammar.split('\n').filter((line) => line !== '');
  for (const line of lines) {
    const at = line.indexOf(' ::= ');
    rules.set(line.slice(0, at), new Parser(line.slice(at + 5), rules).parse());
  }
  return rules.get(lines[0]?.split(' ')[0] ?? '');
}

/** Returns a function that writes a random text at each call; null: the text became too long. */
export function textsOf(grammar: string, next: () => number): () => string | null {
  const root = rootOf(grammar);
  return () => {
    const sample = new Sample(next);
    try {
      root?.write(sample);
      return sample.text;
    } catch (error) {
      if (error instanceof TooLong) return null;
      throw error;
    }
  };
}

/** Returns a function that tells if the grammar allows a text. */
export function readerOf(grammar: string): (text: string) => boolean {
  const root = rootOf(grammar);
  return (text) => {
    const reading = new Reading(text);
    return root?.ends(reading, 0).has(reading.characters.length) === true;
  };
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[a-z][a-z0-9-]*|[*+?()|]|\{(\d+)(,?)(\d*)\})/y;

/** Parses one rule. */
class Parser {
  readonly #tokens: string[] = [];
  readonly #rules: ReadonlyMap<string, Expression>;

  constructor(rule: string, rules: ReadonlyMap<string, Expression>) {
    this.#rules = rules;
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < rule.length) {
      const at = TOKEN.lastIndex;
      const token = TOKEN.exec(rule)?.[1];
      if (token === undefined) throw new Error(`cannot read ${rule.slice(at, at + 40)}`);
      this.#tokens.push(token);
    }
  }

  parse(): Expression {
    const choices = [this.#sequence()];
    while (this.#tokens[0] === '|') {
      this.#tokens.shift();
      choices.push(this.#sequence());
    }
    return {
      write: (sample) => {
        sample.step();
        choices[Math.floor(sample.next() * choices.length)]?.write(sample);
      },
      ends: (reading, at) => new Set(choices.flatMap((choice) => [...choice.ends(reading, at)])),
    };
  }

  #sequence(): Expression {
    const parts: Expression[] = [];
    while (this.#tokens.length > 0 && this.#tokens[0] !== '|' && this.#tokens[0] !== ')')
      parts.push(repetition(this.#atom(this.#tokens.shift() ?? ''), this.#counts()));
    return {
      write: (sample) => {
        for (const part of parts) part.write(sample);
      },
      ends: (reading, at) =>
        parts.reduce<ReadonlySet<number>>((ends, part) => after(part, reading, ends), new Set([at])),
    };
  }

  #atom(token: string): Expression {
    if (token === '(') {
      const inner = this.parse();
      this.#tokens.shift();
      return inner;
    }
    if (token.startsWith('"')) return literal(token);
    if (token.startsWith('[')) return oneOf(token);
    const rule = (): Expression => {
      const found = this.#rules.get(token);
      if (found === undefined) throw new Error(`there is no rule ${token}`);
      return found;
    };
    return { write: (sample) => rule().write(sample), ends: (reading, at) => reading.endsOf(rule(), at) };
  }

  /** Reads the quantifier that follows, and returns the numbers of repetitions that it allows; without one, 1. */
  #counts(): Counts {
    const quantifier = this.#tokens[0] ?? '';
    if (!/^[*+?{]/.test(quantifier)) return [1, 1];
    this.#tokens.shift();
    if (!quantifier.startsWith('{')) return [quantifier === '+' ? 1 : 0, quantifier === '?' ? 1 : Infinity];
    const [least = '', most] = quantifier.slice(1, -1).split(',');
    return [Number(least), most === undefined ? Number(least) : most === '' ? Infinity : Number(most)];
  }
}

type Counts = readonly [least: number, most: number];

function repetition(atom: Expression, [least, most]: Counts): Expression {
  return {
    write(sample) {
      for (let count = 0; count < least || (count < most && sample.next() < 0.6); count++) atom.write(sample);
    },
    ends(reading, at) {
      let ends: ReadonlySet<number> = new Set([at]);
      const found = new Set(least === 0 ? ends : []);
      for (let count = 1; count <= most && ends.size > 0; count++) {
        ends = after(atom, reading, ends);
        const size = found.size;
        if (count >= least) for (const end of ends) found.add(end);
        if (count > least && found.size === size) break;
      }
      return found;
    },
  };
}

function literal(token: string): Expression {
  const text = token.slice(1, -1).replace(/\\(x..|.)/g, (_, escape: string) => unescaped(escape));
  const characters = [...text];
  return {
    write: (sample) => void (sample.text += text),
    ends: (reading, at) =>
      new Set(
        characters.every((each, index) => reading.characters[at + index] === each) ? [at + characters.length] : [],
      ),
  };
}

function oneOf(token: string): Expression {
  const ranges = [...token.slice(1, -1).matchAll(/(\\U.{8}|[^])(?:-(\\U.{8}|[^]))?/gu)].map(
    ([, first = '', last = first]) => [codeOf(first), codeOf(last)] as const,
  );
  return {
    write(sample) {
      sample.step();
      const [from, to] = ranges[Math.floor(sample.next() * ranges.length)] ?? [0, 0];
      sample.text += String.fromCodePoint(from + Math.floor(sample.next() * (to - from + 1)));
    },
    ends(reading, at) {
      const code = reading.characters[at]?.codePointAt(0);
      const isOne = code !== undefined && ranges.some(([from, to]) => from <= code && code <= to);
      return new Set(isOne ? [at + 1] : []);
    },
  };
}

/** Ends of the expression's texts that begin at one of `places`. */
function after(expression: Expression, reading: Reading, places: ReadonlySet<number>): ReadonlySet<number> {
  return new Set([...places].flatMap((place) => [...expression.ends(reading, place)]));
}

function unescaped(escape: string): string {
  return escape.length === 1 ? escape : String.fromCharCode(Number.parseInt(escape.slice(1), 16));
}

function codeOf(character: string): number {
  return character.length > 2 ? Number.parseInt(character.slice(2), 16) : (character.codePointAt(0) ?? 0);
}
