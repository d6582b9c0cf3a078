/** Random texts of a grammar that the schema compiler has written, without an engine. */

/** Appends a text to the sample. */
type Expression = (sample: Sample) => void;

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

/** Returns a function that writes a random text at each call; null: the text became too long. */
export function textsOf(grammar: string, next: () => number): () => string | null {
  const rules = new Map<string, Expression>();
  const lines = grammar.split('\n').filter((line) => line !== '');
  for (const line of lines) {
    const at = line.indexOf(' ::= ');
    rules.set(line.slice(0, at), new Parser(line.slice(at + 5), rules).parse());
  }
  const root = rules.get(lines[0]?.split(' ')[0] ?? '');
  return () => {
    const sample = new Sample(next);
    try {
      root?.(sample);
      return sample.text;
    } catch (error) {
      if (error instanceof TooLong) return null;
      throw error;
    }
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
    return (sample) => {
      sample.step();
      choices[Math.floor(sample.next() * choices.length)]?.(sample);
    };
  }

  #sequence(): Expression {
    const parts: Expression[] = [];
    while (this.#tokens.length > 0 && this.#tokens[0] !== '|' && this.#tokens[0] !== ')') {
      const atom = this.#atom(this.#tokens.shift() ?? '');
      const [least, most] = this.#counts();
      parts.push((sample) => {
        for (let count = 0; count < least || (count < most && sample.next() < 0.6); count++) atom(sample);
      });
    }
    return (sample) => {
      for (const part of parts) part(sample);
    };
  }

  #atom(token: string): Expression {
    if (token === '(') {
      const inner = this.parse();
      this.#tokens.shift();
      return inner;
    }
    if (token.startsWith('"')) {
      const text = token.slice(1, -1).replace(/\\(x..|.)/g, (_, escape: string) => unescaped(escape));
      return (sample) => void (sample.text += text);
    }
    if (!token.startsWith('[')) return (sample) => this.#rules.get(token)?.(sample);
    const characters = [...token.slice(1, -1).matchAll(/(\\U.{8}|[^])(?:-(\\U.{8}|[^]))?/gu)];
    return (sample) => {
      sample.step();
      const [, first = '', last = first] = characters[Math.floor(sample.next() * characters.length)] ?? [];
      const [from, to] = [codeOf(first), codeOf(last)];
      sample.text += String.fromCodePoint(from + Math.floor(sample.next() * (to - from + 1)));
    };
  }

  /** Reads the quantifier that follows, and returns the numbers of repetitions that it allows; without one, 1. */
  #counts(): readonly [least: number, most: number] {
    const quantifier = this.#tokens[0] ?? '';
    if (!/^[*+?{]/.test(quantifier)) return [1, 1];
    this.#tokens.shift();
    if (!quantifier.startsWith('{')) return [quantifier === '+' ? 1 : 0, quantifier === '?' ? 1 : Infinity];
    const [least = '', most] = quantifier.slice(1, -1).split(',');
    return [Number(least), most === undefined ? Number(least) : most === '' ? Infinity : Number(most)];
  }
}

function unescaped(escape: string): string {
  return escape.length === 1 ? escape : String.fromCharCode(Number.parseInt(escape.slice(1), 16));
}

function codeOf(character: string): number {
  return character.length > 2 ? Number.parseInt(character.slice(2), 16) : (character.codePointAt(0) ?? 0);
}
