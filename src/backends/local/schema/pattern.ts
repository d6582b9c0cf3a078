/**
 * `pattern`: compiles a regular expression to GBNF for the inside of a string, in a notation. As in JSON Schema, it has
 * the `u` flag: a character is a code point. Not supported, because a context-free grammar cannot express them:
 * lookaround, backreferences, word boundaries, anchors in the middle.
 */
import { ANY, complement, type Range } from './characters.ts';
import type { LeaveOut } from './leave-out.ts';
import type { Notation } from './notation.ts';

const MAX_DEPTH = 24;

const DIGIT: readonly Range[] = [[0x30, 0x39]];
const WORD: readonly Range[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const SPACE: readonly Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_END: readonly Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const CLASSES: Readonly<Record<string, readonly Range[]>> = {
  d: DIGIT,
  D: complement(DIGIT),
  w: WORD,
  W: complement(WORD),
  s: SPACE,
  S: complement(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 0x09, n: 0x0a, v: 0x0b, f: 0x0c, r: 0x0d, '0': 0x00 };

/** Why a pattern cannot be enforced; the message continues "it …" for the user. */
class PatternError extends Error {}

/** GBNF for the text between the quotes; null: left out. `place` names the pattern in errors. */
export function patternToGbnf(pattern: string, place: string, notation: Notation, leaveOut: LeaveOut): string | null {
  try {
    return new PatternParser(pattern, notation).parse();
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    leaveOut(place, `cannot be enforced: it ${error.message}`);
    return null;
  }
}

class PatternParser {
  readonly #characters: readonly string[];
  readonly #notation: Notation;
  #at = 0;

  constructor(pattern: string, notation: Notation) {
    this.#characters = [...pattern];
    this.#notation = notation;
  }

  parse(): string {
    const alternatives: string[] = [];
    do alternatives.push(this.#anchored());
    while (this.#take('|'));
    if (this.#at < this.#characters.length) throw new PatternError('has an unmatched )');
    return alternatives.join(' | ');
  }

  /** A top-level alternative; where it is not anchored, any text may precede or follow. */
  #anchored(): string {
    const starts = this.#take('^');
    const parts = this.#sequence(0);
    const ends = this.#take('$');
    const around = `${this.#notation.character(ANY) ?? ''}*`;
    return [...(starts ? [] : [around]), ...parts, ...(ends ? [] : [around])].join(' ') || '""';
  }

  #group(depth: number): string {
    if (depth > MAX_DEPTH) throw new PatternError(`nests groups deeper than ${String(MAX_DEPTH)}`);
    if (this.#take('?') && !this.#take(':')) {
      // A group name changes nothing; all other (?…) are lookaround or flags.
      if (!(this.#take('<') && /^[A-Za-z_$]$/.test(this.#peek())))
        throw new PatternError('uses lookaround or inline flags');
      while (this.#next() !== '>');
    }
    const alternatives: string[] = [];
    do alternatives.push(this.#sequence(depth).join(' ') || '""');
    while (this.#take('|'));
    if (!this.#take(')')) throw new PatternError('has an unclosed group');
    return `(${alternatives.join(' | ')})`;
  }

  #sequence(depth: number): string[] {
    const parts: string[] = [];
    for (;;) {
      const character = this.#peek();
      if (character === '' || character === '|' || character === ')') return parts;
      // A $ at the end is the anchor of the alternative.
      if (character === '$' && depth === 0 && /^\|?$/.test(this.#peek(1))) return parts;
      if (character === '^' || character === '$') throw new PatternError('has an anchor in the middle');
      parts.push(this.#atom(depth) + this.#quantifier());
    }
  }

  #atom(depth: number): string {
    const character = this.#next();
    switch (character) {
      case '(':
        return this.#group(depth + 1);
      case '[':
        return this.#oneOf(this.#class());
      case '.':
        return this.#oneOf(complement(LINE_END));
      case '\\':
        return this.#oneOf(this.#escape(false));
      case '*':
      case '+':
      case '?':
      case '{':
        throw new PatternError('has nothing to repeat before a quantifier');
      default:
        return this.#oneOf(single(character.codePointAt(0) ?? 0));
    }
  }

  #oneOf(ranges: readonly Range[]): string {
    const [range] = ranges;
    const character = this.#notation.character(ranges);
    if (character === null) throw new PatternError('requires a character that cannot be written');
    const isOne = ranges.length === 1 && range !== undefined && range[0] === range[1];
    return (isOne ? this.#notation.text(String.fromCodePoint(range[0])) : null) ?? character;
  }

  #quantifier(): string {
    let quantifier = '';
    const character = this.#peek();
    if (character === '*' || character === '+' || character === '?') quantifier = this.#next();
    else if (character === '{') {
      const bounds = /^\{(\d{1,6})(,?)(\d{0,6})\}/.exec(this.#characters.slice(this.#at, this.#at + 20).join(''));
      if (bounds === null || (bounds[2] === '' && bounds[3] !== ''))
        throw new PatternError('has an invalid { quantifier');
      quantifier = bounds[0];
      this.#at += quantifier.length;
    }
    // Lazy or greedy: the matched language is the same.
    if (quantifier !== '') this.#take('?');
    return quantifier;
  }

  #class(): readonly Range[] {
    const isInverse = this.#take('^');
    const ranges: Range[] = [];
    while (!this.#take(']')) {
      const from = this.#member();
      const [first] = from;
      const isRange = this.#peek() === '-' && this.#peek(1) !== ']';
      if (!isRange) {
        ranges.push(...from);
        continue;
      }
      this.#next();
      const [to] = this.#member();
      if (first === undefined || to === undefined || first[0] !== first[1] || to[0] !== to[1] || first[0] > to[0])
        throw new PatternError('has an invalid character range');
      ranges.push([first[0], to[0]]);
    }
    return isInverse ? complement(ranges) : ranges;
  }

  #member(): readonly Range[] {
    const character = this.#next();
    return character === '\\' ? this.#escape(true) : single(character.codePointAt(0) ?? 0);
  }

  /** The rest of an escape, after the backslash. */
  #escape(inClass: boolean): readonly Range[] {
    const character = this.#next();
    const named = CLASSES[character];
    if (named !== undefined) return named;
    const control = CONTROLS[character];
    if (control !== undefined && !/\d/.test(this.#peek())) return single(control);
    if (character === 'b' && inClass) return single(0x08);
    if (character === 'x') return single(this.#hex(2));
    if (character === 'u') return single(this.#take('{') ? this.#hexUntilBrace() : this.#hex(4));
    if (/[A-Za-z0-9]/.test(character)) throw new PatternError(`has \\${character}, which a grammar cannot express`);
    return single(character.codePointAt(0) ?? 0);
  }

  #hex(length: number): number {
    let text = '';
    while (text.length < length) text += this.#next();
    return codePointOf(text);
  }

  #hexUntilBrace(): number {
    let text = '';
    for (let next = this.#next(); next !== '}'; next = this.#next()) text += next;
    return codePointOf(text);
  }

  /** '' at the end. */
  #peek(ahead = 0): string {
    return this.#characters[this.#at + ahead] ?? '';
  }

  #next(): string {
    const character = this.#characters[this.#at];
    if (character === undefined) throw new PatternError('ends too early');
    this.#at++;
    return character;
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }
}

function single(codePoint: number): readonly Range[] {
  return [[codePoint, codePoint]];
}

function codePointOf(hex: string): number {
  const codePoint = /^[0-9a-fA-F]{1,8}$/.test(hex) ? Number.parseInt(hex, 16) : Infinity;
  if (codePoint > 0x10ffff || (codePoint >= 0xd800 && codePoint <= 0xdfff))
    throw new PatternError('has a \\x or \\u that is not a valid character');
  return codePoint;
}
