/**
 * Reasoning folded into one line of the terminal: while the model thinks it is drawn again and again; afterwards it
 * says how long it took.
 */
import { count, duration } from '../terminal/format.ts';
import { writeDim, writeInPlace } from '../terminal/output.ts';

const REDRAW_MS = 200;

export class FoldedThinking {
  readonly #since = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #words = 0;
  #isInWord = false;

  add(text: string): void {
    for (const character of text) {
      const isInWord = character.trim() !== '';
      if (isInWord && !this.#isInWord) this.#words += 1;
      this.#isInWord = isInWord;
    }
    if (this.#timer !== undefined) return;
    this.#draw();
    this.#timer = setInterval(() => {
      this.#draw();
    }, REDRAW_MS).unref();
  }

  /** Leaves one line, without its end. */
  end(): void {
    clearInterval(this.#timer);
    writeInPlace('');
    writeDim(`thought for ${this.#figures()}`);
  }

  #draw(): void {
    writeInPlace(`thinking… ${this.#figures()}`);
  }

  #figures(): string {
    const words = `${count(this.#words)} word${this.#words === 1 ? '' : 's'}`;
    return `${duration((performance.now() - this.#since) / 1000)}, ${words}`;
  }
}
