/**
 * `format`: GBNF for the text between the quotes. A format allows what its standard does, because a model that may not
 * write the value it means writes another one. Left out is what no one writes: leap seconds, user names in quotes,
 * addresses without a dot after the @, and empty paths or IPvFuture in a URI.
 */
import { repeated } from './characters.ts';
import type { Json } from './keywords.ts';

/** Smallest `maxLength` with which a format that has no longest text still allows most of its values. */
const SHORTEST_LIMIT = 160;

// ---- RFC 3339 ------------------------------------------------------------------------------------

const LEAP_YEAR = '([0-9] [0-9] ("0" [48] | [2468] [048] | [13579] [26]) | ([02468] [048] | [13579] [26]) "00")';
const DATE =
  '([0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ' +
  '("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])) | ' +
  `${LEAP_YEAR} "-02-29")`;
const HOURS = '([01] [0-9] | "2" [0-3])';
// Nanoseconds.
const TIME = `${HOURS} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ("Z" | [+-] ${HOURS} ":" [0-5] [0-9])`;
// So many seconds are 31 years.
const COUNT = '[0-9]{1,9}';
const CLOCK = `(${COUNT} "H" (${COUNT} "M" (${COUNT} "S")?)? | ${COUNT} "M" (${COUNT} "S")? | ${COUNT} "S")`;
const DAYS = `(${COUNT} "D" | ${COUNT} "M" (${COUNT} "D")? | ${COUNT} "Y" (${COUNT} "M" (${COUNT} "D")?)?)`;
const DURATION = `"P" (${COUNT} "W" | ${DAYS} ("T" ${CLOCK})? | "T" ${CLOCK})`;

// ---- RFC 4291 ------------------------------------------------------------------------------------

const HEX = '[0-9A-Fa-f]';
const BYTE = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])';
const IPV4 = `${BYTE} ("." ${BYTE}){3}`;
const GROUP = `${HEX}{1,4}`;
/** So many groups, each with a colon, and the colon that stands for those left out. */
const untilGap = (groups: number): string => (groups === 0 ? '"::"' : `(${GROUP} ":"){${String(groups)}} ":"`);
const BEFORE_IPV4 = [0, 1, 2, 3, 4, 5].map((n) => `${untilGap(n)} ${repeated(`(${GROUP} ":")`, 0, 5 - n)}`);
const IPV6 = [
  `(${GROUP} ":"){7} ${GROUP}`,
  ...[0, 1, 2, 3, 4, 5, 6].map((n) => `${untilGap(n)} (${GROUP} ${repeated(`(":" ${GROUP})`, 0, 6 - n)})?`),
  untilGap(7),
  `(${[`(${GROUP} ":"){6}`, ...BEFORE_IPV4].join(' | ')}) ${IPV4}`,
].join(' | ');

// ---- RFC 1123 and 5321 ---------------------------------------------------------------------------

const LABEL_LENGTH = 63;
const DOMAIN_LENGTH = 253;
const LOCAL_LENGTH = 64;

const LETTER = '[A-Za-z0-9]';
const label = (length: number): string => `${LETTER} ([A-Za-z0-9-]{0,${String(length - 2)}} ${LETTER})?`;
/** One label, or several with at most half as many letters as they may have characters. */
const labels = (length: number): string =>
  `(${label(length)} | ${LETTER} ([.-]? ${LETTER}){0,${String((length - 1) >> 1)}})`;

/** A domain with at least `dots` (0 or 1), of at most `length` characters: a grammar counts them in parts. */
function domain(dots: number, length: number): string {
  if (length === Infinity) return `${label(LABEL_LENGTH)} ${repeated(`("." ${label(LABEL_LENGTH)})`, dots, length)}`;
  const parts = Math.floor((length + 1) / (LABEL_LENGTH + 1));
  const rest = length - parts * (LABEL_LENGTH + 1);
  const sizes = [...Array<number>(parts - 1).fill(LABEL_LENGTH), ...(rest > 1 ? [rest] : [])];
  const further = sizes.map((size, index) => `("." ${labels(size)})${index < dots ? '' : '?'}`);
  return [labels(LABEL_LENGTH), ...further].join(' ');
}

const USER = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";

function email(length: number): string {
  if (length === Infinity) return `${USER}+ ("." ${USER}+)* "@" ${domain(1, Infinity)}`;
  const half = `${USER}{1,${String(LOCAL_LENGTH / 2 - 1)}}`;
  const local = `${USER}{1,${String(LOCAL_LENGTH)}} | ${half} "." ${half} | ${USER} ("."? ${USER}){0,31}`;
  return `(${local}) "@" ${domain(1, Math.min(DOMAIN_LENGTH, length - LOCAL_LENGTH - 1))}`;
}

// ---- RFC 3986 ------------------------------------------------------------------------------------

const urlCharacter = (also: string): string => `[A-Za-z0-9._~!$&'()*+,;=${also}-]`;
const orEscape = (character: string): string => `(${character} | "%" ${HEX} ${HEX})`;
const HOST = urlCharacter('');
const SEGMENT = orEscape(urlCharacter(':@'));
const URL_TAIL = urlCharacter(':@/?');

function uri(length: number): string {
  const hasLimit = length !== Infinity;
  const host = Math.min(DOMAIN_LENGTH, Math.floor(length / 3));
  const fragment = Math.floor(length / 24);
  // Scheme and colon, slashes, port, slash, the first segment's first character, and the mark before the fragment.
  const tail = length - host - 3 * fragment - 30;
  const escaped = orEscape(URL_TAIL);
  const path = hasLimit
    ? `(${repeated(URL_TAIL, 0, tail)} | ${repeated(escaped, 0, Math.floor(tail / 3))})`
    : `${escaped}*`;
  const name = hasLimit
    ? repeated(HOST, 1, host)
    : `(${orEscape(urlCharacter(':'))}* "@")? (${orEscape(HOST)}+ | "[" (${IPV6}) "]")`;
  return (
    `[A-Za-z] [A-Za-z0-9+.-]${hasLimit ? '{0,15}' : '*'} ":" ` +
    `("//" (${name} (":" [0-9]{1,5})? ([/?] ${path})? | "/" ${path}) | "/"? ${SEGMENT} ${path} | "/") ` +
    `("#" ${repeated(escaped, 0, hasLimit ? fragment : Infinity)})?`
  );
}

/** By name. `length`: maximum that the schema asks for, or Infinity; longer texts are left to the caller. */
const FORMATS: Readonly<Record<string, (length: number) => string>> = {
  date: () => DATE,
  time: () => TIME,
  'date-time': () => `${DATE} "T" ${TIME}`,
  duration: () => DURATION,
  uuid: () => `${HEX}{8} "-" (${HEX}{4} "-"){3} ${HEX}{12}`,
  uuid4: () => `${HEX}{8} "-" ${HEX}{4} "-4" ${HEX}{3} "-" [89abAB] ${HEX}{3} "-" ${HEX}{12}`,
  ipv4: () => IPV4,
  ipv6: () => IPV6,
  hostname: (length) => domain(0, Math.min(DOMAIN_LENGTH, length)),
  email,
  uri,
};

/** GBNF of a format; null: it is not known, and only an annotation. `length`: `maxLength`, or Infinity. */
export function formatText(format: Json | undefined, length = Infinity): string | null {
  if (typeof format !== 'string') return null;
  const write = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  return write?.(length < SHORTEST_LIMIT ? Infinity : length) ?? null;
}
