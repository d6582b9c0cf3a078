/**
 * Nesting depth of a chat template: an upper bound of libllama's recursion depth when it parses, runs and frees the
 * template. A stack overflow would end the engine process.
 *
 * The depth is the number of open blocks (each `elif` is an `if` within the one before), plus open brackets, plus the
 * operators since the last comma in each open bracket: `a + b + c` parses to a tree that leans to one side. The text
 * is tokenized as by llama.cpp's lexer, including how `}}` is read within a dictionary, so that both agree on what is
 * nesting and what is text. Templates that llama.cpp's parser rejects need no special case: its recursion ends there.
 */

const OPERATORS: ReadonlySet<string> = new Set('.|+-*/%~');
const OPERATOR_WORDS: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is', 'if', 'else']);
const BLOCKS: ReadonlySet<string> = new Set(['if', 'for', 'macro', 'call', 'filter']);
const BLOCK_ENDS: ReadonlySet<string> = new Set(['endif', 'endfor', 'endmacro', 'endcall', 'endfilter', 'endset']);

const TAG_START = /\{[%{#]/g;
const WORD = /[A-Za-z0-9_]+/y;

/** Returns the nesting depth, in one pass over any text. */
export function templateDepth(source: string): number {
  const scanner = new Scanner(source);
  while (scanner.findTag()) scanner.readTag();
  return scanner.deepest;
}

class Scanner {
  deepest = 0;
  readonly #source: string;
  #at = 0;
  #isStatement = false;
  /** Open dictionaries: within one, `}}` are two closing braces. */
  #curlies = 0;
  /** Levels of each open block. */
  readonly #blocks: number[] = [];
  #blockDepth = 0;
  /** Operators since the last comma, of the tag and of each open bracket in it. */
  #operators: number[] = [0];
  /** Open brackets and operators of the tag. */
  #tagDepth = 0;

  constructor(source: string) {
    this.#source = source;
  }

  /** Moves past the next `{{` or `{%`; false when there is none. */
  findTag(): boolean {
    for (;;) {
      TAG_START.lastIndex = this.#at;
      const start = TAG_START.exec(this.#source)?.index;
      if (start === undefined) return false;
      this.#at = start + 2;
      const kind = this.#source[start + 1];
      if (kind === '#') {
        const end = this.#source.indexOf('#}', this.#at);
        if (end === -1) return false;
        this.#at = end + 2;
        continue;
      }
      this.#isStatement = kind === '%';
      if (!this.#isStatement) this.#curlies = 0;
      if (this.#source[this.#at] === '-') this.#at += 1;
      return true;
    }
  }

  readTag(): void {
    this.#operators = [0];
    this.#tagDepth = 0;
    let keyword: string | null = null;
    let assigns = false;
    while (this.#at < this.#source.length && !this.#isAtEnd()) {
      const character = this.#source.charAt(this.#at);
      switch (character) {
        case '"':
        case "'":
          this.#skipString(character);
          continue;
        case '{':
          // A tag within this tag: the parser rejects it, or the rest is read as a tag of its own.
          if ('%{#'.includes(this.#source[this.#at + 1] ?? ' ')) return;
          this.#curlies += 1;
          this.#open();
          break;
        case '(':
        case '[':
          this.#open();
          break;
        case '}':
          this.#curlies -= 1;
          this.#close();
          break;
        case ')':
        case ']':
          this.#close();
          break;
        case ',':
          this.#tagDepth -= this.#operators.at(-1) ?? 0;
          this.#operators[this.#operators.length - 1] = 0;
          break;
        case '=':
        case '!':
        case '<':
        case '>':
          this.#operator();
          if (this.#source[this.#at + 1] === '=') this.#at += 1;
          else assigns ||= character === '=' && this.#operators.length === 1;
          break;
        default: {
          if (OPERATORS.has(character)) {
            this.#operator();
            break;
          }
          const word = this.#word();
          if (word === null) break;
          if (this.#isStatement && keyword === null) keyword = word;
          else if (OPERATOR_WORDS.has(word)) this.#operator();
          continue;
        }
      }
      this.#at += 1;
    }
    if (keyword !== null) this.#endStatement(keyword, assigns);
  }

  /** Moves past the end of the tag and returns true, if it is here. */
  #isAtEnd(): boolean {
    const dash = this.#source[this.#at] === '-' ? 1 : 0;
    const first = this.#source[this.#at + dash];
    if ((first !== '%' && first !== '}') || this.#source[this.#at + dash + 1] !== '}') return false;
    if (first === '}' && dash === 0 && this.#curlies !== 0) return false;
    this.#at += dash + 2;
    return true;
  }

  #endStatement(keyword: string, assigns: boolean): void {
    this.#tagDepth = 0;
    if (BLOCKS.has(keyword) || (keyword === 'set' && !assigns)) {
      this.#blocks.push(1);
      this.#blockDepth += 1;
    } else if (keyword === 'elif' && this.#blocks.length > 0) {
      this.#blocks.push((this.#blocks.pop() ?? 0) + 1);
      this.#blockDepth += 1;
    } else if (BLOCK_ENDS.has(keyword)) {
      this.#blockDepth -= this.#blocks.pop() ?? 0;
    }
    this.#note();
  }

  #open(): void {
    this.#operators.push(0);
    this.#tagDepth += 1;
    this.#note();
  }

  #close(): void {
    if (this.#operators.length === 1) return;
    this.#tagDepth -= 1 + (this.#operators.pop() ?? 0);
    // A called or indexed expression is a child of the call: f(1)(2)[3].
    this.#operator();
  }

  #operator(): void {
    this.#operators.push((this.#operators.pop() ?? 0) + 1);
    this.#tagDepth += 1;
    this.#note();
  }

  #note(): void {
    this.deepest = Math.max(this.deepest, this.#blockDepth + this.#tagDepth);
  }

  #skipString(quote: string): void {
    this.#at += 1;
    while (this.#at < this.#source.length) {
      const character = this.#source[this.#at];
      this.#at += character === '\\' ? 2 : 1;
      if (character === quote) return;
    }
  }

  #word(): string | null {
    WORD.lastIndex = this.#at;
    const word = WORD.exec(this.#source)?.[0] ?? null;
    if (word !== null) this.#at = WORD.lastIndex;
    return word;
  }
}
