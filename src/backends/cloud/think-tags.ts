/**
 * Splits text into reasoning and answer, for servers that send reasoning as `<think>…</think>` before the answer. A
 * possible beginning of a tag is held back until the next piece.
 */
export interface Split {
  readonly reasoning: string;
  readonly text: string;
}

const OPEN = '<think>';
const CLOSE = '</think>';

export class ThinkTags {
  /** `maybe`: only white space or part of the opening tag so far. */
  #state: 'maybe' | 'thinking' | 'answering' = 'maybe';
  #held = '';
  /** Part of the opening tag at the end of `#held`, without the white space before it. */
  #begun = '';
  /** True while white space between reasoning and answer is being dropped. */
  #trims = false;

  /** Stops looking for tags: the server sends reasoning separately. */
  off(): void {
    if (this.#state === 'maybe') this.#state = 'answering';
  }

  push(piece: string): Split {
    let text = this.#held + piece;
    this.#held = '';
    if (this.#state === 'maybe') {
      // Not all of `text`: it would be searched again for each piece of white space.
      const begun = (this.#begun + piece).trimStart();
      if (begun.startsWith(OPEN)) {
        this.#state = 'thinking';
        text = begun.slice(OPEN.length);
      } else if (OPEN.startsWith(begun)) {
        this.#held = text;
        this.#begun = begun;
        return { reasoning: '', text: '' };
      } else this.#state = 'answering';
    }
    if (this.#state === 'answering') return { reasoning: '', text: this.#trimmed(text) };

    const close = text.indexOf(CLOSE);
    if (close === -1) {
      const held = overlap(text);
      this.#held = text.slice(text.length - held);
      return { reasoning: text.slice(0, text.length - held), text: '' };
    }
    this.#state = 'answering';
    this.#trims = true;
    return { reasoning: text.slice(0, close), text: this.#trimmed(text.slice(close + CLOSE.length)) };
  }

  /** Returns the text held back, at the end or before a call, and forgets it. */
  release(): Split {
    const held = this.#held;
    this.#held = '';
    this.#begun = '';
    return this.#state === 'thinking' ? { reasoning: held, text: '' } : { reasoning: '', text: held };
  }

  #trimmed(text: string): string {
    if (!this.#trims) return text;
    const rest = text.trimStart();
    if (rest !== '') this.#trims = false;
    return rest;
  }
}

/** Number of characters at the end of `text` that may begin the closing tag. */
function overlap(text: string): number {
  for (let length = Math.min(text.length, CLOSE.length - 1); length > 0; length--) {
    if (text.endsWith(CLOSE.slice(0, length))) return length;
  }
  return 0;
}
