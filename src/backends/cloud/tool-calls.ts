/** Pieces of tool calls, sorted by call: whose piece one is differs from server to server. */
import { SvcError } from '../../protocol/errors.ts';
import type { ToolCallEvent } from '../../protocol/generate.ts';

export interface Piece {
  /** null: the server numbers no calls. */
  readonly index: number | null;
  /** Among the pieces that came together. */
  readonly position: number;
  /** Empty: not told, or not again. */
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** Of the answer; makes an id for a call that has none. */
  readonly answerId: string;
}

interface Call {
  readonly index: number;
  id: string;
  /** Before the name is known. */
  held: string;
  isNamed: boolean;
}

export class ToolCalls {
  readonly #calls: Call[] = [];
  /** The call that the server's own index stands for, now. */
  readonly #byIndex = new Map<number, Call>();

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** null: nothing can be told before the name is known. */
  add(piece: Piece): ToolCallEvent | null {
    const call = this.#callOf(piece);
    call.id ||= piece.id;
    if (call.isNamed) {
      return piece.arguments === '' ? null : { type: 'tool_call', index: call.index, arguments: piece.arguments };
    }
    call.held += piece.arguments;
    if (piece.name === '') return null;
    call.isNamed = true;
    call.id ||= `call_${piece.answerId || piece.name}_${String(call.index)}`;
    return { type: 'tool_call', index: call.index, id: call.id, name: piece.name, arguments: call.held };
  }

  /** Throws PROVIDER_FAILED for a call that was never named. */
  end(): void {
    if (this.#calls.every(({ isNamed }) => isNamed)) return;
    throw new SvcError('PROVIDER_FAILED', 'the provider called a tool without saying which');
  }

  #callOf({ index, position, id, name }: Piece): Call {
    const known = index === null ? this.#unnumbered(position, id, name) : this.#byIndex.get(index);
    // Gemini's endpoint for OpenAI's clients gives every call the index 0, and an id of its own.
    const isAnother = known !== undefined && id !== '' && name !== '' && known.id !== '' && known.id !== id;
    if (known !== undefined && !isAnother) return known;
    const call: Call = { index: this.#calls.length, id, held: '', isNamed: false };
    this.#calls.push(call);
    this.#byIndex.set(index ?? position, call);
    return call;
  }

  /** Without an index: a piece with a name begins a call, one without goes on with the last. */
  #unnumbered(position: number, id: string, name: string): Call | undefined {
    if (id !== '') return this.#calls.find((call) => call.id === id);
    return name !== '' ? undefined : (this.#byIndex.get(position) ?? this.#calls.at(-1));
  }
}
