/** One request to tokenize or to detokenize on the daemon's side. */
import type { EngineOutput } from '../../engine/addon.ts';
import type { TextEvent } from '../../protocol/generate.ts';
import type { TokensEvent } from '../../protocol/tokenize.ts';
import { EngineAnswer } from './generation.ts';

export class Tokenizing extends EngineAnswer<TokensEvent> {
  /** undefined: not received; null: taken. */
  #tokens: TokensEvent | null | undefined;

  protected override add(): boolean {
    return true;
  }

  protected override addTokens({ tokens, pieces, prompt }: Omit<TokensEvent, 'type'>): boolean {
    if (this.#tokens !== undefined || (pieces !== undefined && pieces.length !== tokens.length)) return false;
    this.#tokens = {
      type: 'tokens',
      tokens,
      ...(pieces === undefined ? {} : { pieces }),
      ...(prompt === undefined ? {} : { prompt }),
    };
    return true;
  }

  protected override take(): TokensEvent | undefined {
    const taken = this.#tokens ?? undefined;
    if (taken !== undefined) this.#tokens = null;
    return taken;
  }
}

export class Detokenizing extends EngineAnswer<TextEvent> {
  /** undefined: not received; null: taken. */
  #text: string | null | undefined;

  /** The engine sends the text and the end in one output. */
  protected override add({ text }: EngineOutput): boolean {
    this.#text = text;
    return true;
  }

  protected override take(): TextEvent | undefined {
    const taken = this.#text ?? undefined;
    if (taken === undefined) return undefined;
    this.#text = null;
    return { type: 'text', text: taken };
  }
}
