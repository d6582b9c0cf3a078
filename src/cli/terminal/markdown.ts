/**
 * Renders Markdown while it arrives: headings, lists, quotes, code blocks, tables and rules, and what `inline.ts` has.
 * Text wraps at words. A word is written as soon as it is complete, a table when it is; nothing else waits. Code is
 * neither wrapped nor indented, so that it can be copied.
 *
 * The text must have no control characters: all escape sequences of the result are those of `styles`.
 */
import { Inline, type Styles } from './inline.ts';
import { facts, table } from './layout.ts';
import { splitAt, width } from './width.ts';

/** A longer word, link or line of a table is written as it is. */
const MOST_HELD = 4096;
const MOST_LINK = 400;
const MOST_ROWS = 500;
const WIDE = /^[\u2e80-\ufaff\ufe30-\ufe4f\uff00-\uffef]$/;
const FENCE = /^ *(`{3,}|~{3,})([^\n]*)/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const SEPARATOR = /^[\s|:-]+$/;
/** The start of a line that decides what the line is. */
const MARKER = /^( *)(#{1,6}|[-*+]|\d{1,9}[.)]|>+) $/;

type Mode = 'start' | 'text' | 'code' | 'table';

export interface MarkdownOptions {
  readonly styles: Styles;
  /** Asked again for each word, because the terminal may change. */
  readonly columns: () => number;
}

export class MarkdownStream {
  readonly #styles: Styles;
  readonly #columns: () => number;
  readonly #inline: Inline;
  #mode: Mode = 'start';
  /** What has arrived of a word, of the start of a line, or of a line of a table. */
  #held = '';
  #spaces = 0;
  #column = 0;
  #hanging = '';
  #isHeading = false;
  #fence = '';
  /** True in a line of code of which a part has been written. */
  #isInCodeLine = false;
  #rows: string[] = [];
  #written = '';

  constructor({ styles, columns }: MarkdownOptions) {
    this.#styles = styles;
    this.#columns = columns;
    this.#inline = new Inline(styles);
  }

  /** Returns what can be written now. */
  push(text: string): string {
    for (const character of text) this.#take(character);
    return this.#flushed();
  }

  /** Returns the rest, with the end of the last line. */
  end(): string {
    if (this.#mode === 'start' && this.#held !== '') this.#line();
    else if (this.#mode !== 'start' && (this.#held !== '' || this.#column > 0 || this.#isInCodeLine)) this.#take('\n');
    this.#endTable();
    return this.#flushed();
  }

  #flushed(): string {
    const written = this.#written;
    this.#written = '';
    return written;
  }

  #take(character: string): void {
    if (this.#mode === 'code') this.#takeCode(character);
    else if (this.#mode === 'text') this.#takeText(character);
    else this.#takeStart(character);
  }

  /** At the start of a line, until it is known what the line is. */
  #takeStart(character: string): void {
    if (character === '\n') {
      this.#line();
      return;
    }
    this.#held += character;
    const first = this.#held.trimStart()[0];
    if (first === '|' && this.#held.length < MOST_HELD) return;
    if (first === '`' || first === '~') {
      if (FENCE.test(this.#held) ? this.#held.length < MOST_HELD : /^ *(`{1,2}|~{1,2})$/.test(this.#held)) return;
    } else if (first === undefined ? this.#held.length < 64 : /^ *(#{1,6}|[-*_+]+|\d{1,9}[.)]?|>+)$/.test(this.#held)) {
      return;
    } else if (/^ *[-*_](?: *[-*_])+ *$/.test(this.#held) && this.#held.length < 64) {
      return;
    }
    this.#beginText();
  }

  /** The text of a line begins: its marker is known. */
  #beginText(): void {
    this.#endTable();
    const held = this.#held;
    this.#held = '';
    this.#mode = 'text';
    const [marker = ''] = /^ *(?:#{1,6}|[-*+]|\d{1,9}[.)]|>+) /.exec(held) ?? [];
    const [, indent = '', sign = ''] = MARKER.exec(marker) ?? [];
    const shown = this.#shownMarker(sign, indent);
    const rest = held.slice(marker.length);
    this.#column = width(shown);
    this.#hanging = sign.startsWith('>') ? shown : ' '.repeat(this.#column);
    this.#written += shown;
    for (const character of rest) this.#takeText(character);
  }

  #shownMarker(sign: string, indent: string): string {
    if (sign.startsWith('#')) this.#isHeading = true;
    if (sign === '' || sign.startsWith('#')) return '';
    const room = indent.slice(0, Math.floor(this.#columns() / 3));
    if (sign.startsWith('>')) return room + this.#styles.dim('│ ');
    return `${room}${/^\d/.test(sign) ? sign : '•'} `;
  }

  #takeText(character: string): void {
    if (character === '\n') {
      this.#word(this.#held);
      this.#held = '';
      this.#newLine();
    } else if (character === ' ' || character === '\t') {
      const isOpen = this.#held.length < MOST_LINK && this.#held !== '' && this.#inline.isWithinLink(this.#held);
      if (isOpen) {
        this.#held += ' ';
        return;
      }
      this.#word(this.#held);
      this.#held = '';
      this.#spaces += 1;
    } else {
      this.#held += character;
      const isBreak = WIDE.test(character) && !this.#inline.isWithinLink(this.#held);
      if (!isBreak && this.#held.length < MOST_HELD) return;
      this.#word(this.#held);
      this.#held = '';
    }
  }

  #word(held: string): void {
    if (held === '') return;
    const words = this.#inline.render(held, this.#spaces > 0 || this.#column === width(this.#hanging));
    for (const [index, word] of words.split(' ').entries()) {
      const spaces = index === 0 ? Math.min(this.#spaces, 16) : 1;
      this.#place(this.#isHeading ? this.#styles.bold(word) : word, spaces);
    }
    this.#spaces = 0;
  }

  #place(word: string, spaces: number): void {
    const columns = this.#columns();
    const cells = width(word);
    const start = width(this.#hanging);
    if (this.#column > start && this.#column + spaces + cells > columns) {
      this.#written += `\n${this.#hanging}`;
      this.#column = start;
    } else {
      this.#written += ' '.repeat(spaces);
      this.#column += spaces;
    }
    let rest = word;
    while (this.#column + width(rest) > columns) {
      const [begin, more] = splitAt(rest, columns - this.#column);
      if (begin === '' || more === '') break;
      this.#written += `${begin}\n${this.#hanging}`;
      this.#column = start;
      rest = more;
    }
    this.#written += rest;
    this.#column += width(rest);
  }

  #newLine(): void {
    this.#written += '\n';
    this.#inline.reset();
    this.#mode = 'start';
    this.#isHeading = false;
    this.#spaces = 0;
    this.#column = 0;
    this.#hanging = '';
  }

  /** Ends a line of which nothing has been written. */
  #line(): void {
    const line = this.#held;
    this.#held = '';
    if (line.trimStart().startsWith('|')) {
      this.#rows.push(line);
      if (this.#rows.length >= MOST_ROWS) this.#endTable();
      return;
    }
    this.#endTable();
    const [fenced, fence = '', language = ''] = FENCE.exec(line) ?? [];
    if (fenced !== undefined && !language.includes('`')) {
      this.#fence = fence;
      this.#mode = 'code';
      if (language.trim() !== '') this.#written += `${this.#styles.dim(language.trim())}\n`;
    } else if (RULE.test(line)) {
      this.#written += `${this.#styles.dim('─'.repeat(Math.min(this.#columns(), 40)))}\n`;
    } else if (line.trim() === '') {
      this.#newLine();
    } else {
      this.#held = line;
      this.#beginText();
      this.#takeText('\n');
    }
  }

  #takeCode(character: string): void {
    if (character === '\n') {
      const line = this.#held;
      this.#held = '';
      if (!this.#isInCodeLine && line.trim().startsWith(this.#fence) && /^(`+|~+)$/.test(line.trim())) {
        this.#mode = 'start';
        return;
      }
      this.#written += `${line === '' ? '' : this.#styles.code(line)}\n`;
      this.#isInCodeLine = false;
      return;
    }
    this.#held += character;
    // What may be the closing fence waits for the end of its line.
    if (!this.#isInCodeLine && /^ *[`~]*$/.test(this.#held) && this.#held.length < MOST_HELD) return;
    this.#written += this.#styles.code(this.#held);
    this.#held = '';
    this.#isInCodeLine = true;
  }

  #endTable(): void {
    const rows = this.#rows;
    if (rows.length === 0) return;
    this.#rows = [];
    const cells = rows.filter((row) => !SEPARATOR.test(row)).map((row) => this.#cellsOf(row));
    const [titles = [], ...records] = cells;
    const columns = this.#columns();
    const text = table([titles.map(this.#styles.bold), ...records]);
    const fits = text.split('\n').every((line) => width(line) <= columns);
    // A table that is too wide loses nothing: each row becomes a list of its cells.
    const lists = records.map((record) =>
      facts(
        record.map((cell, index): [string, string] => [titles[index] ?? '', cell]),
        columns,
      ),
    );
    this.#written += `${fits || records.length === 0 ? text : lists.join('\n\n')}\n`;
  }

  #cellsOf(row: string): string[] {
    const inner = row.trim().replace(/^\|/, '').replace(/\|$/, '');
    return inner.split(/(?<!\\)\|/).map((cell) => {
      this.#inline.reset();
      const rendered = this.#inline.render(cell.trim().replaceAll('\\|', '|'), true);
      this.#inline.reset();
      return rendered;
    });
  }
}
