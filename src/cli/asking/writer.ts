/**
 * Writes an answer as it comes. On a terminal its reasoning comes before it, dimmed, and its Markdown is rendered; a
 * pipe gets the answer alone, as it is.
 */
import { out, STYLES, write, writeDim, writeRendered } from '../terminal/output.ts';

/** Renders text that has no control characters. */
interface Renderer {
  push(text: string): string;
  end(): string;
}

/** @param raw never render Markdown. */
export async function openWriter(raw: boolean): Promise<AnswerWriter> {
  if (raw || !out.isTerminal || !out.hasColour) return new AnswerWriter();
  // Imported only here: a pipe and a terminal without styles need no renderer.
  const { MarkdownStream } = await import('../terminal/markdown.ts');
  return new AnswerWriter(new MarkdownStream({ styles: STYLES, columns: () => out.columns }));
}

export class AnswerWriter {
  readonly #renderer: Renderer | undefined;
  #last = '\n';
  #isThinking = false;

  constructor(renderer?: Renderer) {
    this.#renderer = renderer;
  }

  readonly onText = (text: string): void => {
    if (this.#isThinking) write(this.#last.endsWith('\n') ? '\n' : '\n\n');
    this.#isThinking = false;
    this.#last = text;
    const renderer = this.#renderer;
    if (renderer === undefined) write(text);
    else writeRendered(text, (harmless) => renderer.push(harmless));
  };

  readonly onReasoning = (text: string): void => {
    if (!out.isTerminal) return;
    this.#isThinking = true;
    this.#last = text;
    writeDim(text);
  };

  /** Ends the last line, whether or not the answer is complete. */
  end(): void {
    const renderer = this.#renderer;
    if (renderer !== undefined && !this.#isThinking) writeRendered('', () => renderer.end());
    else if (!this.#last.endsWith('\n')) write('\n');
    this.#isThinking = false;
    this.#last = '\n';
  }
}
