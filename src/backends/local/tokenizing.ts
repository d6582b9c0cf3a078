/** One request to tokenize or to detokenize on the daemon's side. */
import type { EngineOutput, EngineTokenizeRequest, WithoutId } from '../../engine/addon.ts';
import type { TextEvent } from '../../protocol/generate.ts';
import type { TokensEvent } from '../../protocol/tokenize.ts';
import { EngineAnswer, type AnswerOwner } from './generation.ts';

export class Tokenizing extends EngineAnswer<TokensEvent> {
  override readonly isComputed = false;
  readonly #hasPieces: boolean;
  readonly #hasPrompt: boolean;
  /** undefined: not received; null: taken. */
  #tokens: TokensEvent | null | undefined;

  constructor(id: number, owner: AnswerOwner, request: WithoutId<EngineTokenizeRequest>) {
    super(id, owner);
    this.#hasPieces = 'text' in request && request.pieces === true;
    this.#hasPrompt = !('text' in request);
  }

  protected override addTokens({ tokens, pieces, prompt }: Omit<TokensEvent, 'type'>): boolean {
    if (this.#tokens !== undefined || (prompt !== undefined) !== this.#hasPrompt) return false;
    if (pieces?.length !== (this.#hasPieces ? tokens.length : undefined)) return false;
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
  override readonly isComputed = false;
  /** undefined: not received; null: taken. */
  #text: string | null | undefined;

  /** The engine sends the text and the end in one output. */
  protected override add({ text }: EngineOutput): string | undefined {
    if (this.#text !== undefined) return 'sent a text twice';
    this.#text = text;
    return undefined;
  }

  protected override take(): TextEvent | undefined {
    const taken = this.#text ?? undefined;
    if (taken === undefined) return undefined;
    this.#text = null;
    return { type: 'text', text: taken };
  }
}
