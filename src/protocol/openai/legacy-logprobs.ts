/** Log probabilities in the format of legacy completions: parallel lists instead of one list of records. */
import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import type { TokenLogprob, TokenLogprobs } from '../generate.ts';

export interface LegacyLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly number[];
  /** null: no alternatives were requested. */
  readonly top_logprobs: readonly Readonly<Record<string, number>>[] | null;
  /** Where each token begins in the text of the choice, in characters (code points). */
  readonly text_offset: readonly number[];
}

/** The log probabilities of one choice, in the pieces in which they come. */
export class LegacyLogprobsWriter {
  readonly #alternatives: number;
  readonly #decoder = new StringDecoder('utf8');
  #offset = 0;

  /** `alternatives`: as requested, for each token. */
  constructor(alternatives: number) {
    this.#alternatives = alternatives;
  }

  /** null: there are none. */
  next(logprobs: readonly TokenLogprobs[]): LegacyLogprobs | null {
    if (logprobs.length === 0) return null;
    return {
      tokens: logprobs.map(nameOf),
      token_logprobs: logprobs.map(({ logprob }) => logprob),
      top_logprobs: this.#alternatives === 0 ? null : logprobs.map(alternativesOf),
      text_offset: logprobs.map((token) => this.#advance(token)),
    };
  }

  /** Returns the offset of the token. A token that is part of a character begins where the character does. */
  #advance({ bytes }: TokenLogprob): number {
    const offset = this.#offset;
    this.#offset += [...this.#decoder.write(Buffer.from(bytes))].length;
    return offset;
  }
}

/** The chosen token is among them, too, as in OpenAI's API. */
function alternativesOf(token: TokenLogprobs): Record<string, number> {
  return Object.fromEntries([token, ...token.top].map((each) => [nameOf(each), each.logprob]));
}

/** Bytes that are not text are spelled as in OpenAI's API, so that no two tokens have the same name. */
function nameOf({ token, bytes }: TokenLogprob): string {
  const raw = Buffer.from(bytes);
  if (isUtf8(raw)) return token;
  return `bytes:${[...raw].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}
