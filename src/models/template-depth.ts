/**
 * How deep a chat template nests: an upper bound of how deep libllama goes into itself to read it, to
 * run it and to free it, for it does all three by recursion and a stack that overflows ends a process.
 *
 * Counted are the open blocks (each `elif` is an `if` within the one before), the open brackets, and in
 * each bracket the operators since the last comma: `a + b + c` is a tree that leans to one side. The text
 * is cut into tokens as llama.cpp's lexer does it, down to how `}}` is read within a dictionary, so that
 * nothing is nesting to one and text to the other. What llama.cpp's parser would refuse need not be told
 * apart here: it goes no deeper after that.
 */

const OPERATOR_WORDS: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is', 'if', 'else']);
const BLOCKS: ReadonlySet<string> = new Set(['if', 'for', 'macro', 'call', 'filter']);
const BLOCK_ENDS: ReadonlySet<string> = new Set(['endif', 'endfor', 'endmacro', 'endcall', 'endfilter', 'endset']);

const TAG_START = /\{[%{#]/g;
const WORD = /[A-Za-z0-9_]+/y;

/** In one pass, whatever the text is. */
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
  /** Of dictionaries: within one, `}}` are two ends. */
  #curlies = 0;
  /** The levels of each open block. */
  readonly #blocks: number[] = [];
  #blockDepth = 0;
  /** Of the tag, and of each open bracket in it, since its last comma. */
  #operators: number[] = [0];
  /** Brackets and operators. */
  #tagDepth = 0;

  constructor(source: string) {
    this.#source = source;
  }

  /** Goes past the beginning of the next `{{` or `{%`; false when there is none. */
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
          // Another tag in this one: what follows is refused, or read as that one.
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
        case '.':
        case '|':
        case '+':
        case '-':
        case '*':
        case '/':
        case '%':
        case '~':
          this.#operator();
          break;
        default: {
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

  /** Goes past the end of the tag, if it is here. */
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
    // What was called or indexed stands below the call: f(1)(2)[3].
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
