/** How a grammar writes strings, keys and commas: as JSON, or as the formats of some models' tool calls do. */
import { classOf, complement, intersect, literal, PLAIN, type Range } from './characters.ts';

/** All members but the prefix are GBNF expressions. */
export interface Notation {
  /** Begins the names of the rules for any value, which all grammars in the notation have in common. */
  readonly anyPrefix: string;
  /** Before a string, and after it. */
  readonly quote: string;
  /** Any string after its first quote, the other quote included. null: characters, then the quote. */
  readonly anyString: string | null;
  readonly comma: string;
  /** Characters of keys that the schema does not name. */
  readonly keyCharacters: readonly Range[];
  readonly hasEmptyKey: boolean;
  /** One character of the set, inside a string. null: none of them can be written. */
  character(ranges: readonly Range[]): string | null;
  /** This text, inside a string. null: it cannot be written. */
  text(text: string): string | null;
  /** An object's key, which `name` is or matches, and what stands between it and the value. */
  key(name: string): string;
  /** As `key`, for a name. null: it cannot be written. */
  keyOf(name: string): string | null;
}

/** Characters that JSON writes with a backslash, and the character after it. */
const ESCAPES: readonly (readonly [codePoint: number, escape: string])[] = [
  [0x22, '"'],
  [0x5c, '\\'],
  [0x08, 'b'],
  [0x0c, 'f'],
  [0x0a, 'n'],
  [0x0d, 'r'],
  [0x09, 't'],
];

/** JSON without \u escapes. */
export const JSON_NOTATION: Notation = {
  anyPrefix: 'any-',
  quote: literal('"'),
  anyString: null,
  comma: literal(', '),
  keyCharacters: PLAIN,
  hasEmptyKey: true,
  character(ranges) {
    const plain = intersect(ranges, PLAIN);
    const escaped = ESCAPES.filter(([codePoint]) =>
      ranges.some(([first, last]) => first <= codePoint && codePoint <= last),
    ).map(([, escape]): Range => [escape.codePointAt(0) ?? 0, escape.codePointAt(0) ?? 0]);
    if (escaped.length === 0) return plain.length === 0 ? null : classOf(plain);
    const escapes = `${literal('\\')} ${classOf(escaped)}`;
    return `(${plain.length === 0 ? escapes : `${classOf(plain)} | ${escapes}`})`;
  },
  text: (text) => literal(JSON.stringify(text).slice(1, -1)),
  key: (name) => `${literal('"')} ${name} ${literal('": ')}`,
  keyOf: (name) => literal(`${JSON.stringify(name)}: `),
};

const NO_TAG = complement([[0x3c, 0x3c]]);

/** Any text up to the tag, and the tag. REQUIRES: it begins with `<` and has no other. */
function untilTag(tag: string): string {
  const notAt = (at: number): string => {
    const expected: Range = [tag.codePointAt(at) ?? 0, tag.codePointAt(at) ?? 0];
    const other = classOf(intersect(NO_TAG, complement([expected])));
    return at === tag.length - 1 ? other : `(${other} | ${literal(tag[at] ?? '')} ${notAt(at + 1)})`;
  };
  // Beginnings of the tag that end at the next `<`, or at another character.
  const begun = `(${[...tag.slice(1)].map((_, index) => literal(tag.slice(0, index + 1))).join(' | ')})*`;
  return `(${classOf(NO_TAG)} | ${begun} ${literal('<')} ${notAt(1)})* ${begun} ${literal(tag)}`;
}

/**
 * A text as it is, up to a closing tag that is not part of it. No `<` is written, so that no tag begins in it,
 * whichever tag closes it.
 */
export const BARE: Notation = {
  anyPrefix: 'any-bare-',
  quote: '""',
  anyString: null,
  comma: '""',
  keyCharacters: [],
  hasEmptyKey: false,
  character(ranges) {
    const written = intersect(ranges, NO_TAG);
    return written.length === 0 ? null : classOf(written);
  },
  text: (text) => (text.includes('<') ? null : literal(text)),
  key: () => '""',
  keyOf: () => null,
};

/** A text as it is, of any characters. */
export const UNQUOTED: Notation = { ...BARE, character: classOf, text: literal };

/** Gemma 4's objects: `{name:<|"|>text<|"|>,n:5}`. */
export const TAGGED: Notation = {
  ...BARE,
  anyPrefix: 'any-tagged-',
  quote: literal('<|"|>'),
  anyString: untilTag('<|"|>'),
  comma: literal(','),
  keyCharacters: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  key: (name) => `${name} ${literal(':')}`,
  keyOf: (name) => (/^[^\s:{}[\],<]+$/.test(name) ? literal(`${name}:`) : null),
};
