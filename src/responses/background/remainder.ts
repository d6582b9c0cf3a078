/**
 * Finds the new part of the events when an answer is made again from its known tokens. Its text, reasoning, calls and
 * tokens begin as in the earlier events, but in pieces of other lengths.
 */
import type { AnswerEvent, ReasoningEvent, TextEvent, ToolCallEvent } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';

export class Remainder {
  /** Number of characters or elements of each kind in the earlier events, less those that have come again. */
  readonly #known = new Map<string, number>();
  /** New tokens whose content is in the earlier events; the next event with new content lists them. */
  #held: number[] = [];

  /** `told`: the events so far. */
  constructor(told: Iterable<AnswerEvent>) {
    for (const event of told) {
      if (event.type === 'finish') continue;
      if (event.type === 'route' || event.type === 'start') {
        this.#count(event.type, 1);
        continue;
      }
      this.#count('tokens', event.tokens?.length ?? 0);
      if (event.type === 'tool_call') {
        this.#count(callOf(event), event.id === undefined ? 0 : 1);
        this.#count(argumentsOf(event), event.arguments.length);
      } else {
        this.#count(event.type, event.text.length);
        if (event.type === 'text') this.#count('logprobs', event.logprobs?.length ?? 0);
      }
    }
  }

  /** The new part of the event; null: there is none. */
  of(event: AnswerEvent): AnswerEvent | null {
    switch (event.type) {
      case 'route':
      case 'start':
        return this.#skip(event.type, 1) === 1 ? null : event;
      case 'text':
      case 'reasoning':
        return this.#ofText(event);
      case 'tool_call':
        return this.#ofCall(event);
      case 'finish':
        return event;
    }
  }

  #ofText<Event extends TextEvent | ReasoningEvent>(event: Event): Event | null {
    this.#hold(event);
    const text = event.text.slice(this.#skip(event.type, event.text.length));
    const all = event.type === 'text' ? event.logprobs : undefined;
    const logprobs = all?.slice(this.#skip('logprobs', all.length));
    if (text === '' && event.text !== '') return null;
    return { ...event, text, ...given({ logprobs, tokens: this.#release() }) };
  }

  #ofCall(event: ToolCallEvent): ToolCallEvent | null {
    this.#hold(event);
    const isKnown = event.id !== undefined && this.#skip(callOf(event), 1) === 1;
    const piece = event.arguments.slice(this.#skip(argumentsOf(event), event.arguments.length));
    if (piece === '' && (isKnown || event.arguments !== '')) return null;
    const { id, name, index } = event;
    const begin = isKnown ? {} : given({ id, name });
    return { type: 'tool_call', index, ...begin, arguments: piece, ...given({ tokens: this.#release() }) };
  }

  #hold({ tokens = [] }: { readonly tokens?: readonly number[] }): void {
    this.#held.push(...tokens.slice(this.#skip('tokens', tokens.length)));
  }

  #release(): readonly number[] | undefined {
    const tokens = this.#held.splice(0);
    return tokens.length === 0 ? undefined : tokens;
  }

  #count(kind: string, more: number): void {
    this.#known.set(kind, (this.#known.get(kind) ?? 0) + more);
  }

  /** Returns how many of the next `count` were sent before. */
  #skip(kind: string, count: number): number {
    const known = Math.min(this.#known.get(kind) ?? 0, count);
    this.#count(kind, -known);
    return known;
  }
}

function callOf({ index }: ToolCallEvent): string {
  return `call ${String(index)}`;
}

function argumentsOf({ index }: ToolCallEvent): string {
  return `arguments ${String(index)}`;
}
