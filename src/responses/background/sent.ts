/** How much of an answer is in the journal, so that an engine that tells its beginning once more is not heard twice. */
import type { GenerateEvent } from '../../protocol/generate.ts';

type Content = Extract<GenerateEvent, { type: 'text' | 'reasoning' | 'tool_call' }>;

export function isContent(event: { readonly type: string }): event is Content {
  return event.type === 'text' || event.type === 'reasoning' || event.type === 'tool_call';
}

export class Sent {
  /** Characters by kind of content; calls each by its index. */
  readonly #lengths = new Map<string, number>();

  get isEmpty(): boolean {
    return this.#lengths.size === 0;
  }

  copy(): Sent {
    const copy = new Sent();
    for (const [kind, length] of this.#lengths) copy.#lengths.set(kind, length);
    return copy;
  }

  add(event: Content): void {
    const kind = kindOf(event);
    this.#lengths.set(kind, (this.#lengths.get(kind) ?? 0) + textOf(event).length);
  }

  /** Takes away what was sent. Returns the rest of the event; null: there is none. */
  cut(event: Content): Content | null {
    const kind = kindOf(event);
    const left = this.#lengths.get(kind);
    if (left === undefined) return event;
    const text = textOf(event);
    const rest = text.slice(left);
    this.#lengths.set(kind, Math.max(0, left - text.length));
    if (rest === '') return null;
    // A call that had begun keeps its id and its name.
    if (event.type === 'tool_call') return { type: 'tool_call', index: event.index, arguments: rest };
    return { ...event, text: rest };
  }
}

function kindOf(event: Content): string {
  return event.type === 'tool_call' ? `call ${String(event.index)}` : event.type;
}

function textOf(event: Content): string {
  return event.type === 'tool_call' ? event.arguments : event.text;
}
