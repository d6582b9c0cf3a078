/** Compiles number ranges to GBNF. */

/** Maximum digits of an integer; all such integers are exact in a double. */
const DIGITS = 15;
export const LARGEST = 10 ** DIGITS - 1;
const FRACTION = `"." [0-9]{1,${String(DIGITS)}}`;

export const INTEGER = `"-"? (${upTo(DIGITS)})`;
export const NUMBER = `"-"? (${upTo(DIGITS)}) (${FRACTION})? ([eE] [-+]? [0-9]{1,2})?`;

export interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly excludesMin: boolean;
  readonly excludesMax: boolean;
}

/** null: the range contains no integer of at most DIGITS digits. */
export function integerBetween(bounds: Bounds): string | null {
  const min = Math.max(-LARGEST, first(bounds.min, bounds.excludesMin));
  const max = Math.min(LARGEST, -first(-bounds.max, bounds.excludesMax));
  return min > max ? null : whole(min, max);
}

/**
 * Not all numbers in the range, only those that are simple to express: integers; integers with any fraction, if the
 * next integer is also in the range; and in small ranges numbers with as many decimals as the bounds, at least two.
 */
export function numberBetween(bounds: Bounds): string | null {
  const { min, max, excludesMin, excludesMax } = bounds;
  const parts = [integerBetween(bounds)];
  const least = Math.max(-LARGEST, first(min, excludesMin));
  const most = Math.min(LARGEST, -first(-max, excludesMax));
  // n.5 lies between n and n + 1, -n.5 between -n and -n - 1.
  if (most - 1 >= Math.max(0, least)) parts.push(`${grouped(digits(Math.max(0, least), most - 1))} ${FRACTION}`);
  if (least + 1 <= Math.min(0, most)) {
    parts.push(`"-" ${grouped(digits(Math.max(0, -most), -least - 1))} ${FRACTION}`);
  }
  const decimals = Math.max(2, decimalsOf(min), decimalsOf(max));
  if (max - min <= 1000 && decimals <= 6) parts.push(...withDecimals(bounds, decimals));
  const found = parts.filter((part) => part !== null);
  return found.length === 0 ? null : found.join(' | ');
}

/** Smallest integer >= `bound`, or > `bound` if `excluded`. */
function first(bound: number, excluded: boolean): number {
  const next = Math.ceil(bound);
  return excluded && next === bound ? next + 1 : next;
}

function decimalsOf(bound: number): number {
  for (let decimals = 0; decimals <= 6; decimals++) if (Number(bound.toFixed(decimals)) === bound) return decimals;
  return 7;
}

/** n / 10^decimals for integer n, written with all decimals. */
function withDecimals({ min, max, excludesMin, excludesMax }: Bounds, decimals: number): string[] {
  const scale = 10 ** decimals;
  const from = Math.round(min * scale) + (excludesMin ? 1 : 0);
  const to = Math.round(max * scale) - (excludesMax ? 1 : 0);
  const parts: string[] = [];
  if (to >= Math.max(0, from)) parts.push(fixed(Math.max(0, from), to, decimals));
  if (from < 0) {
    const [nearest, farthest] = [Math.max(1, -to), -from];
    if (nearest <= farthest) parts.push(`"-" ${grouped(fixed(nearest, farthest, decimals))}`);
  }
  return parts;
}

/** min..max, not negative, with a decimal point before the last `decimals` digits. */
function fixed(min: number, max: number, decimals: number): string {
  const scale = 10 ** decimals;
  const [low, high] = [Math.floor(min / scale), Math.floor(max / scale)];
  const tail = (from: number, to: number): string => grouped(sameLength(pad(from, decimals), pad(to, decimals)));
  if (low === high) return `"${String(low)}." ${tail(min % scale, max % scale)}`;
  const parts = [`"${String(low)}." ${tail(min % scale, scale - 1)}`, `"${String(high)}." ${tail(0, max % scale)}`];
  if (low + 1 < high) parts.push(`${grouped(digits(low + 1, high - 1))} "." [0-9]{${String(decimals)}}`);
  return parts.join(' | ');
}

function whole(min: number, max: number): string {
  const parts: string[] = [];
  if (min < 0) parts.push(`"-" ${grouped(digits(Math.max(1, -max), -min))}`);
  if (max >= 0) parts.push(digits(Math.max(0, min), max));
  return parts.join(' | ');
}

/** Integers, 0 <= min <= max, without leading zeros. */
function digits(min: number, max: number): string {
  if (min === 0 && max === LARGEST) return upTo(DIGITS);
  const parts: string[] = [];
  for (let length = String(min).length; length <= String(max).length; length++) {
    const from = Math.max(min, length === 1 ? 0 : 10 ** (length - 1));
    const to = Math.min(max, 10 ** length - 1);
    parts.push(sameLength(String(from), String(to)));
  }
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
  if (first <= last) parts.push(joined(`[${String(first)}-${String(last)}]`, sameLength(zeros, nines)));
  return parts.length === 1 ? (parts[0] as string) : grouped(parts.join(' | '));
}

function joined(head: string, rest: string): string {
  return rest === '""' ? head : `${head} ${rest.includes('|') ? grouped(rest) : rest}`;
}

function grouped(expression: string): string {
  return `(${expression})`;
}

function upTo(length: number): string {
  return `[0] | [1-9] [0-9]{0,${String(length - 1)}}`;
}

function pad(value: number, length: number): string {
  return String(value).padStart(length, '0');
}
