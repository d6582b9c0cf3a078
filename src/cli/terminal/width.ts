/**
 * Display width of text in terminal cells, by Unicode's East Asian Width. A grapheme cluster is never divided. Escape
 * sequences, combining marks and format characters take no cell; wide characters and emoji take two.
 */
import { stripVTControlCharacters } from 'node:util';
import { eastAsianWidth } from 'get-east-asian-width';

const ASCII = /^[ -~]*$/;
/** Emoji by default or by variation selector, and flags. */
const EMOJI = /\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\p{Regional_Indicator}{2}/u;
/** Not marks, controls, format characters, or the vowels and finals that complete a Hangul syllable. */
const VISIBLE = /[^\p{Mn}\p{Me}\p{Cf}\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\u1160-\u11ff]/u;
/** SGR sequences, which set colours. */
// eslint-disable-next-line no-control-regex
const COLOURS = /\u001b\[[\d;]*m/g;
/** A colour, or text up to the next one. */
// eslint-disable-next-line no-control-regex
const PARTS = /\u001b\[[\d;]*m|[^\u001b]+|\u001b/g;
const ESCAPE = '\u001b';

let segmenter: Intl.Segmenter | undefined;

/** Number of cells that `text`, one line, takes. */
export function width(text: string): number {
  if (ASCII.test(text)) return text.length;
  const plain = stripVTControlCharacters(text);
  if (ASCII.test(plain)) return plain.length;
  let cells = 0;
  for (const cluster of clusters(plain)) cells += clusterWidth(cluster);
  return cells;
}

/** Divides `text` after at most `cells` cells. */
export function splitAt(text: string, cells: number): readonly [start: string, rest: string] {
  // The beginning is nearly always enough, and then the cost does not depend on the length of the text.
  const beginning = text.slice(0, 16 * cells + 256);
  const at = endOf(beginning, cells) ?? (beginning === text ? undefined : endOf(text, cells)) ?? text.length;
  return [text.slice(0, at), text.slice(at)];
}

/** Returns where `cells` end; undefined if the text does not take more. */
function endOf(text: string, cells: number): number | undefined {
  let left = cells;
  let at = 0;
  for (const part of text.match(PARTS) ?? []) {
    const isEscape = part.startsWith(ESCAPE);
    for (const cluster of isEscape ? [part] : clusters(part)) {
      left -= isEscape ? 0 : clusterWidth(cluster);
      if (left < 0) return at;
      at += cluster.length;
    }
  }
  return undefined;
}

/** Shortens `text` to `cells`, with `…` for what is missing. Its colours still end. */
export function cut(text: string, cells: number): string {
  if (width(text) <= cells) return text;
  const [start, rest] = splitAt(text, cells - 1);
  return `${start}…${rest.match(COLOURS)?.join('') ?? ''}`;
}

function* clusters(text: string): Iterable<string> {
  // Made when it is needed: it loads tables of ICU.
  segmenter ??= new Intl.Segmenter();
  for (const { segment } of segmenter.segment(text)) yield segment;
}

function clusterWidth(cluster: string): number {
  if (ASCII.test(cluster)) return cluster.length;
  if (EMOJI.test(cluster)) return 2;
  let cells = 0;
  for (const character of cluster) if (VISIBLE.test(character)) cells += eastAsianWidth(character.codePointAt(0) ?? 0);
  return cells;
}
