/** A body of any size: what repeats, or a pair of which one refers to the other, such as results and calls. */
export type Body = Readonly<Record<string, unknown>>;

export interface LargeBody {
  readonly name: string;
  /** Greatest size: the body is just within the limits of its API. */
  readonly most: number;
  make(size: number): Body;
  /** What the API makes of it: a request that a backend gets, or something else; a promise where it reads files. */
  read(body: Body): unknown;
}

export const list = <Item>(length: number, item: (index: number) => Item): Item[] =>
  Array.from({ length }, (_, index) => item(index));
/** `items` in groups of `most`. */
export const grouped = <Item>(items: readonly Item[], most: number): Item[][] =>
  list(Math.ceil(items.length / most), (group) => items.slice(group * most, (group + 1) * most));

export const HI = { role: 'user', content: 'hi' };
export const PIXEL = 'iVBORw0KGgoAAAANSUhEUg==';
/** Calls in a message. */
export const CALLS = 500;
/** A megabyte, two bytes a character in memory. */
export const LONG = 'ĕ'.repeat(512 * 1024);
