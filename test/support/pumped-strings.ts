/**
 * Generates worst-case inputs for a regular expression. For each part that may repeat without bound: its prefix
 * followed by many repetitions of the part, and many repetitions of prefix and part together. A super-linear
 * expression is super-linear on at least one of the two.
 */

/** A string of any length: `prefix`, repetitions of `unit`, `end`. */
export interface Pump {
  readonly prefix: string;
  readonly unit: string;
  readonly end: string;
}

interface Atom {
  readonly kind: 'atom';
  readonly source: string;
}
interface Group {
  readonly kind: 'group';
  /** False for look-arounds, which consume no text. */
  readonly takesText: boolean;
  readonly alternatives: readonly (readonly Part[])[];
}
interface Part {
  readonly node: Atom | Group;
  readonly least: number;
  readonly most: number;
}

/** A quantifier with a higher maximum counts as unbounded. */
const BOUND = 100;
/** Final characters. Most expressions fail to match one of them and then backtrack through all alternatives. */
const ENDS = ['\n\u0000', 'a'];
const CHARACTERS = ['a', '0', ' ', '\n', '-', '.', '_', 'A', '/', ':', '"', '<', '{', '\u0000', '\u0300', 'é'];

export function pumpsOf({ source, flags }: RegExp): Pump[] {
  const parts = new Parser(source).alternatives();
  const found: Pump[] = [];
  const sample = (node: Atom | Group): string => sampleOf(node, flags);
  const text = (sequence: readonly Part[]): string =>
    sequence.map(({ node, least }) => (least === 0 ? '' : sample(node).repeat(Math.min(least, BOUND)))).join('');

  const visit = (alternatives: readonly (readonly Part[])[], before: string): void => {
    for (const sequence of alternatives) {
      for (const [index, { node, most }] of sequence.entries()) {
        const prefix = before + text(sequence.slice(0, index));
        if (most > BOUND) {
          for (const unit of unitsOf(node, flags)) {
            for (const end of ENDS) found.push({ prefix, unit, end }, { prefix: '', unit: prefix + unit, end });
          }
        }
        if (node.kind === 'group') visit(node.alternatives, prefix);
      }
    }
  };
  visit(parts, '');
  const [first = []] = parts;
  const whole = text(first);
  for (const end of ENDS) found.push({ prefix: '', unit: whole === '' ? 'a' : whole, end });
  return unique(found);
}

/** Returns the pump's string with at least `length` characters of repetitions. */
export function pumped({ prefix, unit, end }: Pump, length: number): string {
  return prefix + unit.repeat(Math.ceil(length / unit.length)) + end;
}

function unique(pumps: readonly Pump[]): Pump[] {
  return [...new Map(pumps.filter(({ unit }) => unit !== '').map((pump) => [JSON.stringify(pump), pump])).values()];
}

/** Sample texts that a repeated part matches. */
function unitsOf(node: Atom | Group, flags: string): string[] {
  if (node.kind === 'group') return [sampleOf(node, flags)];
  return charactersOf(node, flags).slice(0, 3);
}

function sampleOf(node: Atom | Group, flags: string): string {
  if (node.kind === 'atom') return charactersOf(node, flags)[0] ?? '';
  if (!node.takesText) return '';
  const [first = []] = node.alternatives;
  return first.map((part) => sampleOf(part.node, flags).repeat(Math.min(Math.max(part.least, 1), BOUND))).join('');
}

/** Sample characters that an atom matches; none for an assertion or a back-reference. */
function charactersOf({ source }: Atom, flags: string): string[] {
  if (/^(?:\^|\$|\\[bB]|\\[1-9])$/.test(source)) return [];
  const atom = new RegExp(`^(?:${source})$`, flags.replace(/[gym]/g, ''));
  const known = CHARACTERS.filter((character) => atom.test(character));
  if (known.length > 0) return known;
  for (let code = 0; code <= 0xffff; code++)
    if (atom.test(String.fromCharCode(code))) return [String.fromCharCode(code)];
  throw new Error(`no single UTF-16 code unit matches ${source}`);
}

/** Parser for the subset of regular-expression syntax that src/ uses; throws on anything else. */
class Parser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  alternatives(): Part[][] {
    const all: Part[][] = [[]];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ')') {
      if (this.#source[this.#at] === '|') {
        this.#at += 1;
        all.push([]);
      } else all.at(-1)?.push(this.#part());
    }
    return all;
  }

  #part(): Part {
    const node = this.#source[this.#at] === '(' ? this.#group() : this.#atom();
    const [quantifier = '', least, comma, most] =
      /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(this.#source.slice(this.#at)) ?? [];
    this.#at += quantifier.length;
    if (least !== undefined) {
      const bound = most === '' || most === undefined ? (comma === ',' ? Infinity : Number(least)) : Number(most);
      return { node, least: Number(least), most: bound };
    }
    const [sign] = quantifier;
    return { node, least: sign === '*' || sign === '?' ? 0 : 1, most: sign === '*' || sign === '+' ? Infinity : 1 };
  }

  #group(): Group {
    const opening = /^\((?:\?(?::|<?[=!]|<\w+>))?/.exec(this.#source.slice(this.#at))?.[0] ?? '(';
    this.#at += opening.length;
    const alternatives = this.alternatives();
    if (this.#source[this.#at] !== ')') throw new Error(`unterminated group: ${this.#source}`);
    this.#at += 1;
    return { kind: 'group', takesText: !/[=!]$/.test(opening), alternatives };
  }

  #atom(): Atom {
    const rest = this.#source.slice(this.#at);
    const source = /^(?:\[(?:\\.|[^\]\\])*\]|\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9a-f]{4}|x[0-9a-f]{2}|.)|[^\\])/isu.exec(
      rest,
    )?.[0];
    if (source === undefined) throw new Error(`cannot parse ${rest} in ${this.#source}`);
    this.#at += source.length;
    return { kind: 'atom', source };
  }
}
