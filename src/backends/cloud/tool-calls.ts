/** Assigns pieces of tool calls to their calls, which servers identify in different ways. */
import { SvcError } from '../../protocol/errors.ts';
import type { ToolCallEvent } from '../../protocol/generate.ts';

export interface Piece {
  /** null: the server sends no index. */
  readonly index: number | null;
  /** Position among the pieces of one event. */
  readonly position: number;
  /** Empty: not sent, or not repeated. */
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** The answer's id, from which the id of a call without one is made. */
  readonly answerId: string;
}

interface Call {
  readonly index: number;
  id: string;
  /** Arguments received before the name. */
  held: string;
  isNamed: boolean;
}

export class ToolCalls {
  readonly #calls: Call[] = [];
  /** Current call of each server index. */
  readonly #byIndex = new Map<number, Call>();

  get isEmpty(): boolean {
    return this.#calls.length === 0;
  }

  /** null: no event, because the name is unknown so far or there is nothing new. */
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
    throw new SvcError('PROVIDER_FAILED', 'the provider sent a tool call without a tool name');
  }

  #callOf({ index, position, id, name }: Piece): Call {
    const known = index === null ? this.#unnumbered(position, id, name) : this.#byIndex.get(index);
    // Gemini's OpenAI-compatible endpoint gives every call the index 0 and its own id.
    const isAnother = known !== undefined && id !== '' && name !== '' && known.id !== '' && known.id !== id;
    if (known !== undefined && !isAnother) return known;
    const call: Call = { index: this.#calls.length, id, held: '', isNamed: false };
    this.#calls.push(call);
    this.#byIndex.set(index ?? position, call);
    return call;
  }

  /** Without an index: a piece with a name begins a call, a piece without one continues the last. */
  #unnumbered(position: number, id: string, name: string): Call | undefined {
    if (id !== '') return this.#calls.find((call) => call.id === id);
    return name !== '' ? undefined : (this.#byIndex.get(position) ?? this.#calls.at(-1));
  }
}
