/** Lays text out in a number of columns: `Infinity`, the default, for a pipe, where nothing is cut or wrapped. */
import { cut, splitAt, width } from './width.ts';

const GAP = '  ';
/** A column is not cut below this width; it is dropped. */
const LEAST_CUT = 8;
/** Text is not wrapped into less than this beside a head; it goes below the head. */
const LEAST_TEXT = 24;
const BELOW = '    ';
/** Characters after which a word that is too long is divided: those of paths, choices and lists. */
const DIVIDERS = /[/|,]/g;

type Rows = readonly (readonly string[])[];

/** Aligns columns. Columns that do not fit are dropped from the right; the last one that remains may be cut. */
export function table(rows: Rows, columns = Infinity): string {
  const widths = fitting(widthsOf(rows), columns);
  return rows
    .map((row) =>
      widths
        .slice(0, row.length)
        .map((cells, column) => padded(cut(row[column] ?? '', cells), cells))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n');
}

function widthsOf(rows: Rows): number[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, width(cell));
    });
  }
  return widths;
}

function fitting(widths: readonly number[], columns: number): number[] {
  const fitted: number[] = [];
  let at = 0;
  for (const cells of widths) {
    const room = columns - at;
    if (cells > room && fitted.length > 0 && room < LEAST_CUT) break;
    fitted.push(Math.min(cells, room));
    if (cells > room) break;
    at += cells + GAP.length;
  }
  return fitted;
}

/** Formats name and value pairs, one per line; a value without a name continues the one above. Values wrap. */
export function facts(pairs: readonly (readonly [string, string])[], columns = Infinity): string {
  return definitions(
    pairs.map(([name, value]) => [name === '' ? '' : `${name}:`, value]),
    columns,
  );
}

/**
 * Aligns columns of which the last is text that wraps. The text of a row whose other cells take more than half of the
 * line is below them.
 */
export function definitions(rows: Rows, columns = Infinity): string {
  const heads = table(rows.map((row) => row.slice(0, -1))).split('\n');
  const beside = Math.max(0, ...heads.map(width).filter((cells) => cells <= columns / 2));
  const isBeside = beside > 0 && columns - beside - GAP.length >= LEAST_TEXT;
  const indent = isBeside ? ' '.repeat(beside) + GAP : BELOW;
  return rows
    .map((row, index) => {
      const head = heads[index] ?? '';
      const text = indented(wrap(row.at(-1) ?? '', columns - indent.length), indent);
      if (head === '') return text;
      if (isBeside && width(head) <= beside) return (padded(head, indent.length) + text.slice(indent.length)).trimEnd();
      return text.trim() === '' ? wrap(head, columns) : `${wrap(head, columns)}\n${text}`;
    })
    .join('\n');
}

/** Wraps each line at words. A word that is longer than a line is divided. `hanging` begins the lines that continue. */
export function wrap(text: string, columns: number, hanging = ''): string {
  return text
    .split('\n')
    .map((line) => wrapLine(line.split(' '), columns, hanging))
    .join('\n');
}

/** Wraps lines that are too long under their own indent. */
export function fit(text: string, columns: number): string {
  return text
    .split('\n')
    .map((line) => (width(line) <= columns ? line : wrap(line, columns, /^ */.exec(line)?.[0])))
    .join('\n');
}

/** Wraps at the end of any of the `words`, each line that is continued with `ending`. */
export function wrapLine(words: readonly string[], columns: number, hanging: string, ending = ''): string {
  if (columns === Infinity) return words.join(' ');
  const room = Math.max(columns - width(ending), hanging.length + 2);
  const lines: string[] = [];
  let line: string | undefined;
  for (const word of words) {
    let rest = line === undefined ? word : `${line} ${word}`;
    if (line !== undefined && width(rest) > room) {
      lines.push(line + ending);
      rest = hanging + word;
    }
    for (;;) {
      const [start, more] = divided(rest, room, hanging.length);
      if (more === '') break;
      lines.push(start);
      rest = hanging + more;
    }
    line = rest;
  }
  return [...lines, line ?? ''].join('\n');
}

/** Divides after a divider in the second half of the line if there is one. */
function divided(word: string, cells: number, indent: number): readonly [string, string] {
  const [start, rest] = splitAt(word, cells);
  // A character that is wider than the line goes there all the same.
  if (rest === '' || start.length <= indent) return [word, ''];
  const at = [...start.matchAll(DIVIDERS)].at(-1)?.index ?? 0;
  return at < indent + (start.length - indent) / 2
    ? [start, rest]
    : [start.slice(0, at + 1), start.slice(at + 1) + rest];
}

function padded(text: string, cells: number): string {
  return text + ' '.repeat(Math.max(0, cells - width(text)));
}

/** Indents every line that is not empty. */
export function indented(text: string, indent: string): string {
  return text.replace(/^(?=.)/gm, indent);
}
