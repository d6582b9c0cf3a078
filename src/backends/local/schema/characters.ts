/** Sets of characters, and GBNF for them and for texts. */

/** Code points, both ends included. */
export type Range = readonly [first: number, last: number];

const LAST = 0x10ffff;
/** Characters not escaped in a JSON string: no control characters, quote or backslash. */
export const PLAIN: readonly Range[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
  [0x80, 0xd7ff],
  [0xe000, LAST],
];

export const ANY: readonly Range[] = [[0, LAST]];

export function complement(ranges: readonly Range[]): Range[] {
  const sorted = [...ranges].sort(([a], [b]) => a - b);
  const others: Range[] = [];
  let next = 0;
  for (const [first, last] of sorted) {
    if (first > next) others.push([next, first - 1]);
    next = Math.max(next, last + 1);
  }
  if (next <= LAST) others.push([next, LAST]);
  return others;
}

/** Matches one character of the set, written as it is. REQUIRES: the set is not empty. */
export function classOf(ranges: readonly Range[]): string {
  return `[${ranges.map(classRange).join('')}]`;
}

/** Quotes text as a GBNF literal. */
export function literal(text: string): string {
  let escaped = '';
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === '\\') escaped += `\\${character}`;
    else escaped += code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, '0')}` : character;
  }
  return `"${escaped}"`;
}

/** GBNF for `item` repeated; `max` may be Infinity. */
export function repeated(item: string, min: number, max: number): string {
  if (max === Infinity) return min === 0 ? `${item}*` : `${item}{${String(min)},}`;
  return max === 0 ? '""' : `${item}{${String(min)},${String(max)}}`;
}

export function intersect(some: readonly Range[], others: readonly Range[]): Range[] {
  return some.flatMap(([first, last]) =>
    others.map(([from, to]): Range => [Math.max(first, from), Math.min(last, to)]).filter(([from, to]) => from <= to),
  );
}

function classRange([first, last]: Range): string {
  return first === last ? inClass(first) : `${inClass(first)}-${inClass(last)}`;
}

function inClass(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  return /[A-Za-z0-9 _.,:;!?@#%&/()+*=<>'|~]/.test(character) && codePoint < 0x7f
    ? character
    : `\\U${codePoint.toString(16).padStart(8, '0')}`;
}
