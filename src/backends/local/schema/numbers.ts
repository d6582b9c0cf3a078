/** Compiles ranges of numbers to GBNF. Numbers are compared with the bounds as decimals, digit by digit. */
import { invalid } from '../../../protocol/validate.ts';
import type { JsonObject } from './keywords.ts';

/** Maximum digits of an integer, as many as the largest of 64 bits has, and of a fraction. */
export const DIGITS = 20;
const LARGEST = 10n ** BigInt(DIGITS) - 1n;
/** Decimal digits that a double keeps. A longer decimal just below a bound may be read as the bound. */
const EXACT_DIGITS = 15;

const FRACTION = `"." [0-9]{1,${String(DIGITS)}}`;
/** From 1 up to 10, with as many digits as make it less than 10 also as a double. */
const MANTISSA = `[1-9] ("." [0-9]{1,${String(EXACT_DIGITS)}})?`;
/** More than 0, less than 1. */
const BELOW_ONE = `${MANTISSA} [eE] "-" "0"? [1-9] [0-9]?`;
/** At least 1. */
const FROM_ONE = `${MANTISSA} [eE] "+"? [0-9]{1,2}`;

export const INTEGER = `"-"? (${digits(0n, LARGEST)})`;
export const NUMBER = `${INTEGER} (${FRACTION})? ([eE] [-+]? [0-9]{1,2})?`;

/** Infinity: no bound. */
export interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly excludesMin: boolean;
  readonly excludesMax: boolean;
}

/** Bounds that a schema sets; null: none. Throws INVALID_REQUEST. `path`: path of the schema. */
export function boundsOf(schema: JsonObject, path: string): Bounds | null {
  const bound = (keyword: string, otherwise: number): number => {
    const value = schema[keyword] ?? otherwise;
    if (typeof value !== 'number') throw invalid(`${path}.${keyword}`, 'must be number');
    return value;
  };
  const [min, above] = [bound('minimum', -Infinity), bound('exclusiveMinimum', -Infinity)];
  const [max, below] = [bound('maximum', Infinity), bound('exclusiveMaximum', Infinity)];
  const bounds = {
    min: Math.max(min, above),
    max: Math.min(max, below),
    excludesMin: above >= min,
    excludesMax: below <= max,
  };
  return bounds.min === -Infinity && bounds.max === Infinity ? null : bounds;
}

/** null: the range contains no integer of at most DIGITS digits. */
export function integerBetween({ min, max, excludesMin, excludesMax }: Bounds): string | null {
  const [least, most] = [first(min, excludesMin), -first(-max, excludesMax)];
  if (least > most) return null;
  const parts: string[] = [];
  if (least < 0n) parts.push(`"-" (${digits(most < 0n ? -most : 1n, -least)})`);
  if (most >= 0n) parts.push(digits(least > 0n ? least : 0n, most));
  return parts.join(' | ');
}

/** Smallest integer >= `bound`, or > `bound` if `isExcluded`; one digit too long if none has at most DIGITS. */
function first(bound: number, isExcluded: boolean): bigint {
  if (Math.abs(bound) >= Number(LARGEST)) return bound < 0 ? -LARGEST : LARGEST + 1n;
  const next = BigInt(Math.ceil(bound));
  return isExcluded && Number(next) === bound ? next + 1n : next;
}

/** null: the range contains no number whose integer has at most DIGITS digits. */
export function numberBetween({ min, max, excludesMin, excludesMax }: Bounds): string | null {
  const positive = max < 0 ? [] : magnitudes(Math.max(0, min), min >= 0 && excludesMin, max, excludesMax);
  const negative = min >= 0 ? [] : magnitudes(Math.max(0, -max), max >= 0 || excludesMax, -min, excludesMin);
  const parts = [...positive, ...(negative.length === 0 ? [] : [`"-" (${negative.join(' | ')})`])];
  return parts.length === 0 ? null : parts.join(' | ');
}

/** Numbers without a sign; no parts: none. With an exponent only those of (0, 1) and from 1 on, if all are within. */
function magnitudes(low: number, excludesLow: boolean, high: number, excludesHigh: boolean): string[] {
  if (low > high || low >= Number(LARGEST)) return [];
  const parts: string[] = [];
  if (low === 0 && high >= 1) parts.push(BELOW_ONE);
  if ((excludesLow ? low < 1 : low <= 1) && high === Infinity) parts.push(FROM_ONE);

  const from = decimalOf(low, true);
  const to = upperEnd(high, excludesHigh);
  const hasLow = from.fraction === '' && !excludesLow;
  const lowDigits = excludesLow && low > 0 ? exactDigits(from.whole) : DIGITS;
  const highDigits = excludesHigh ? exactDigits(to.whole) : DIGITS;
  if (from.whole === to.whole) {
    const fraction = between(from.fraction, excludesLow, to.fraction, excludesHigh, Math.min(lowDigits, highDigits));
    parts.push(...edge(to.whole, hasLow, fraction));
  } else if (from.whole < to.whole) {
    if (!hasLow) parts.push(...edge(from.whole, false, atLeast(from.fraction, excludesLow, lowDigits)));
    const inner = hasLow ? from.whole : from.whole + 1n;
    if (inner < to.whole) parts.push(`(${digits(inner, to.whole - 1n)}) (${FRACTION})?`);
    if (to.whole <= LARGEST) parts.push(...edge(to.whole, true, atMost(to.fraction, excludesHigh, highDigits)));
  }
  return parts;
}

/** A decimal of which the fraction has no zeros at its end. */
interface Decimal {
  readonly whole: bigint;
  readonly fraction: string;
}

/** `value` >= 0 with at most DIGITS digits after the point. */
function decimalOf(value: number, roundsUp: boolean): Decimal {
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [whole = '', decimals = ''] = mantissa.split('.');
  const shift = Number(exponent) - decimals.length + DIGITS;
  const unit = 10n ** BigInt(Math.max(0, -shift));
  const scaled = BigInt(whole + decimals) * 10n ** BigInt(Math.max(0, shift));
  const rounded = scaled / unit + (roundsUp && scaled % unit > 0n ? 1n : 0n);
  let fraction = String(rounded % (LARGEST + 1n)).padStart(DIGITS, '0');
  while (fraction.endsWith('0')) fraction = fraction.slice(0, -1);
  return { whole: rounded / (LARGEST + 1n), fraction };
}

/** The last integer part of numbers up to `high`, and the largest fraction after it; null: any. */
function upperEnd(high: number, isExcluded: boolean): { readonly whole: bigint; readonly fraction: string | null } {
  if (high >= Number(LARGEST)) return { whole: LARGEST + 1n, fraction: '' };
  const { whole, fraction } = decimalOf(high, false);
  return isExcluded && fraction === '' ? { whole: whole - 1n, fraction: null } : { whole, fraction };
}

function exactDigits(whole: bigint): number {
  return EXACT_DIGITS - String(whole).length;
}

/** The integer by itself, if `isNumber`, and with the fraction, if there is one. */
function edge(whole: bigint, isNumber: boolean, fraction: string | null): string[] {
  if (fraction === null) return isNumber ? [`"${String(whole)}"`] : [];
  return isNumber ? [`"${String(whole)}" ("." ${grouped(fraction)})?`] : [`"${String(whole)}." ${grouped(fraction)}`];
}

// ---- fractions: at least one digit and about `left` of them; null: there is none -----------------

/** Fractions >= `low`, or > `low`. */
function atLeast(low: string, isExcluded: boolean, left: number): string | null {
  if (low === '' && left <= 0) return null;
  if (low === '') return isExcluded ? `"0"{0,${String(left - 1)}} [1-9] ${upTo(left - 1)}` : `[0-9] ${upTo(left - 1)}`;
  const [digit, rest] = [Number(low[0]), low.slice(1)];
  if (rest === '' && !isExcluded) return `${oneOf(digit, 9)} ${upTo(left - 1)}`;
  return choice([
    digit < 9 ? `${oneOf(digit + 1, 9)} ${upTo(left - 1)}` : null,
    then(digit, atLeast(rest, isExcluded, left - 1), false),
  ]);
}

/** Fractions <= `high`, or < `high`; null: any. REQUIRES: `high` is not '' if it is excluded. */
function atMost(high: string | null, isExcluded: boolean, left: number): string | null {
  if (high === null) return atLeast('', false, left);
  if (high === '') return `"0"{1,${String(DIGITS)}}`;
  const [digit, rest] = [Number(high[0]), high.slice(1)];
  const isLast = rest === '' && isExcluded;
  return choice([
    digit > 0 ? `${oneOf(0, digit - 1)} ${upTo(left - 1)}` : null,
    isLast || (isExcluded && left <= 1) ? null : then(digit, atMost(rest, isExcluded, left - 1), true),
  ]);
}

/** Fractions that are both. */
function between(
  low: string,
  excludesLow: boolean,
  high: string | null,
  excludesHigh: boolean,
  left: number,
): string | null {
  if (low === '' && !excludesLow) return atMost(high, excludesHigh, left);
  if (high === null) return atLeast(low, excludesLow, left);
  const [from, to] = [Number(low[0] ?? 0), Number(high[0] ?? 0)];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (high === '' || from > to || left <= 0) return null;
  const isLowNumber = lowRest === '' && !excludesLow;
  const isHighNumber = highRest !== '' || !excludesHigh;
  if (from === to) {
    const rest = isHighNumber ? between(lowRest, excludesLow, highRest, excludesHigh, left - 1) : null;
    return then(from, rest, isLowNumber && isHighNumber);
  }
  return choice([
    then(from, atLeast(lowRest, excludesLow, left - 1), isLowNumber),
    from + 1 < to ? `${oneOf(from + 1, to - 1)} ${upTo(left - 1)}` : null,
    isHighNumber ? then(to, atMost(highRest, excludesHigh, left - 1), true) : null,
  ]);
}

/** The digit, and what follows it; `isWhole`: also the digit by itself. */
function then(digit: number, rest: string | null, isWhole: boolean): string | null {
  if (rest === null) return isWhole ? `"${String(digit)}"` : null;
  return `"${String(digit)}" ${isWhole ? `(${rest})?` : grouped(rest)}`;
}

// ---- integers ------------------------------------------------------------------------------------

/** Integers, 0 <= min <= max, without leading zeros. */
function digits(min: bigint, max: bigint): string {
  const [from, to] = [String(min), String(max)];
  if (from.length === to.length) return sameLength(from, to);
  if (min === 0n) return `"0" | ${digits(1n, max)}`;
  // Lengths of which all numbers are in the range.
  const shortest = from.length + (/^10*$/.test(from) ? 0 : 1);
  const longest = to.length - (/^9+$/.test(to) ? 0 : 1);
  const parts: string[] = [];
  if (shortest > from.length) parts.push(sameLength(from, '9'.repeat(from.length)));
  if (shortest <= longest) parts.push(`[1-9] [0-9]{${String(shortest - 1)},${String(longest - 1)}}`);
  if (longest < to.length) parts.push(sameLength(`1${'0'.repeat(longest)}`, to));
  return parts.join(' | ');
}

/** Digit strings of equal length, from <= to. */
function sameLength(from: string, to: string): string {
  if (from === '') return '""';
  if (/^0*$/.test(from) && /^9*$/.test(to)) return `[0-9]{${String(from.length)}}`;
  const [low, high] = [Number(from[0]), Number(to[0])];
  const [lowRest, highRest] = [from.slice(1), to.slice(1)];
  if (low === high) return joined(`"${String(low)}"`, sameLength(lowRest, highRest));
  const nines = '9'.repeat(lowRest.length);
  const zeros = '0'.repeat(lowRest.length);
  const parts: string[] = [];
  let [first, last] = [low, high];
  if (lowRest !== zeros) {
    parts.push(joined(`"${String(low)}"`, sameLength(lowRest, nines)));
    first++;
  }
  if (highRest !== nines) {
    parts.push(joined(`"${String(high)}"`, sameLength(zeros, highRest)));
    last--;
  }
  if (first <= last) parts.push(joined(oneOf(first, last), sameLength(zeros, nines)));
  return parts.length === 1 ? (parts[0] as string) : `(${parts.join(' | ')})`;
}

function joined(head: string, rest: string): string {
  return rest === '""' ? head : `${head} ${grouped(rest)}`;
}

// ---- expressions ---------------------------------------------------------------------------------

function choice(expressions: readonly (string | null)[]): string | null {
  const possible = expressions.filter((each) => each !== null);
  return possible.length === 0 ? null : possible.join(' | ');
}

function grouped(expression: string): string {
  return expression.includes(' ') ? `(${expression})` : expression;
}

function oneOf(from: number, to: number): string {
  return from === to ? `"${String(from)}"` : `[${String(from)}-${String(to)}]`;
}

function upTo(count: number): string {
  return count <= 0 ? '""' : `[0-9]{0,${String(count)}}`;
}
