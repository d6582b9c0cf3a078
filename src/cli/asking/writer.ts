/**
 * Writes an answer as it comes. On a terminal its reasoning comes before it, dimmed and folded into one line, and its
 * Markdown is rendered; a pipe gets the answer alone, as it is.
 */
import { out, STYLES, write, writeDim, writeRendered } from '../terminal/output.ts';
import { FoldedThinking } from './thinking.ts';

/** Renders text that has no control characters. */
interface Renderer {
  push(text: string): string;
  end(): string;
}

/** @param raw never render Markdown. @param unfolded write the whole reasoning. */
export async function openWriter(raw: boolean, unfolded: boolean): Promise<AnswerWriter> {
  if (raw || !out.isTerminal || !out.hasColour) return new AnswerWriter(unfolded);
  // Imported only here: a pipe and a terminal without styles need no renderer.
  const { MarkdownStream } = await import('../terminal/markdown.ts');
  return new AnswerWriter(unfolded, new MarkdownStream({ styles: STYLES, columns: () => out.columns }));
}

export class AnswerWriter {
  readonly #unfolded: boolean;
  readonly #renderer: Renderer | undefined;
  #folded: FoldedThinking | undefined;
  #last = '\n';
  #isThinking = false;
  #hasText = false;

  constructor(unfolded: boolean, renderer?: Renderer) {
    this.#unfolded = unfolded;
    this.#renderer = renderer;
  }

  readonly onText = (text: string): void => {
    this.#endThinking();
    if (this.#isThinking) write(this.#last.endsWith('\n') ? '\n' : '\n\n');
    this.#isThinking = false;
    this.#hasText = true;
    this.#last = text;
    const renderer = this.#renderer;
    if (renderer === undefined) write(text);
    else writeRendered(text, (harmless) => renderer.push(harmless));
  };

  readonly onReasoning = (text: string): void => {
    if (!out.isTerminal) return;
    this.#isThinking = true;
    this.#last = text;
    // A line that is drawn in place would replace the end of the text before it.
    if (this.#unfolded || this.#hasText) {
      writeDim(text);
      return;
    }
    this.#folded ??= new FoldedThinking();
    this.#folded.add(text);
  };

  /** Ends the last line, whether or not the answer is complete. */
  end(): void {
    this.#endThinking();
    const renderer = this.#renderer;
    if (renderer !== undefined && !this.#isThinking) writeRendered('', () => renderer.end());
    else if (!this.#last.endsWith('\n')) write('\n');
    this.#isThinking = false;
    this.#hasText = false;
    this.#last = '\n';
  }

  #endThinking(): void {
    if (this.#folded === undefined) return;
    this.#folded.end();
    this.#folded = undefined;
    // The folded line has no end.
    this.#last = '';
  }
}
