/**
 * Renders Markdown within a line: bold, italic, struck and code text, and links. Its state carries over from word to
 * word.
 */

export interface Styles {
  bold(text: string): string;
  italic(text: string): string;
  strike(text: string): string;
  underline(text: string): string;
  code(text: string): string;
  dim(text: string): string;
}

type Mark = 'bold' | 'italic' | 'strike';

/** A link; the text and the address have limits, so that no search is long. */
const LINK = /^!?\[([^\]\n]{0,200})\]\(<?([^)\s>]{0,2000})>?(?: "[^"]{0,200}")?\)/;
const OPEN_LINK = /\[[^\]]*$|\[[^\]]*\]\([^)]*$/;
const TOKENS = /\\[*_`#~]|`+|\*\*\*|\*\*|\*|__|_|~~|!?\[|[^\\`*_~[!]+|[^]/g;

export class Inline {
  readonly #styles: Styles;
  readonly #open = new Set<Mark>();
  #isCode = false;
  #before = ' ';

  constructor(styles: Styles) {
    this.#styles = styles;
  }

  /** True if `text` ends within a link, whose end must be seen first. */
  isWithinLink(text: string): boolean {
    return !this.#isCode && OPEN_LINK.test(text);
  }

  /** Ends what a line has left open. */
  reset(): void {
    this.#open.clear();
    this.#isCode = false;
    this.#before = ' ';
  }

  /** Renders whole words; `before` is a space if one is before them. */
  render(words: string, isAfterSpace: boolean): string {
    if (isAfterSpace) this.#before = ' ';
    let rendered = '';
    for (let at = 0; at < words.length;) {
      const [link, text = '', url = ''] = this.#isCode ? [] : (LINK.exec(words.slice(at, at + 2500)) ?? []);
      if (link !== undefined) {
        rendered += this.#linked(text, url);
        at += link.length;
        this.#before = ')';
        continue;
      }
      TOKENS.lastIndex = at;
      const token = TOKENS.exec(words)?.[0] ?? words.slice(at);
      at += token.length;
      rendered += this.#token(token, words[at] ?? ' ');
      this.#before = token.at(-1) ?? ' ';
    }
    return rendered;
  }

  #linked(text: string, url: string): string {
    const name = this.#styled(this.#styles.underline(text));
    return text === url || text === ''
      ? this.#styled(this.#styles.underline(url))
      : `${name} ${this.#styles.dim(`(${url})`)}`;
  }

  #token(token: string, after: string): string {
    if (token.startsWith('`')) {
      this.#isCode = !this.#isCode;
      return '';
    }
    if (this.#isCode) return this.#styles.code(token);
    if (token.startsWith('\\') && token.length > 1) return this.#styled(token.slice(1));
    const marks = MARKS[token];
    if (marks === undefined || !this.#toggle(marks, token.startsWith('_'), after)) return this.#styled(token);
    return '';
  }

  /** Returns false if the characters are not a mark here, such as a `*` between spaces or a `_` in a name. */
  #toggle(marks: readonly Mark[], isInWord: boolean, after: string): boolean {
    const closes = marks.every((mark) => this.#open.has(mark));
    if (closes ? /\s/.test(this.#before) : /\s/.test(after)) return false;
    if (isInWord && /[\p{L}\p{N}]/u.test(closes ? after : this.#before)) return false;
    for (const mark of marks) {
      if (closes) this.#open.delete(mark);
      else this.#open.add(mark);
    }
    return true;
  }

  #styled(text: string): string {
    let styled = text;
    for (const mark of this.#open) styled = this.#styles[mark](styled);
    return styled;
  }
}

const MARKS: Readonly<Record<string, readonly Mark[]>> = {
  '***': ['bold', 'italic'],
  '**': ['bold'],
  __: ['bold'],
  '*': ['italic'],
  _: ['italic'],
  '~~': ['strike'],
};
