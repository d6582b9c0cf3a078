/** Writes an answer as it comes. On a terminal its reasoning comes before it, dimmed; a pipe gets the answer alone. */
import { out, write, writeDim } from '../terminal/output.ts';

export class AnswerWriter {
  #last = '\n';
  #isThinking = false;

  readonly onText = (text: string): void => {
    if (this.#isThinking) write(this.#last.endsWith('\n') ? '\n' : '\n\n');
    this.#isThinking = false;
    this.#last = text;
    write(text);
  };

  readonly onReasoning = (text: string): void => {
    if (!out.isTerminal) return;
    this.#isThinking = true;
    this.#last = text;
    writeDim(text);
  };

  /** Ends the last line, whether or not the answer is complete. */
  end(): void {
    if (!this.#last.endsWith('\n')) write('\n');
    this.#last = '\n';
  }
}
