/**
 * Converts items to our messages. Several items make one message: the calls that follow a message of the assistant, or
 * one another, belong to it, and so does the reasoning before it. What comes between a call and its result belongs to
 * the call's message, too: servers with strict checks require the results directly after it.
 */
import { fromCarried } from '../../history/carried-reasoning.ts';
import type { ContentPart, Message, ToolCall } from '../../generate.ts';
import { LIMITS } from '../../limits.ts';
import { invalid } from '../../validate.ts';
import { joined, toAudio, toImage } from '../messages.ts';
import { flatName } from '../tools.ts';
import type { ContentItem, Placed } from './items.ts';

export interface Conversation {
  readonly messages: Message[];
  /** For each message, the place in the request of the item that it begins with. */
  readonly places: string[];
}

type Of<Type extends ContentItem['type']> = Extract<ContentItem, { type: Type }>;
type Parts = Of<'message'>['content'];

/** `instructions` become the first message; null: none. Throws INVALID_REQUEST with `param`. */
export function toConversation(instructions: string | null, items: readonly Placed<ContentItem>[]): Conversation {
  const builder = new Builder();
  if (instructions !== null) builder.add({ role: 'system', content: instructions }, 'instructions');
  for (const { item, place } of items) builder.addItem(item, place);
  return builder;
}

class Builder implements Conversation {
  readonly messages: Message[] = [];
  readonly places: string[] = [];
  /** Reasoning for the next message of the assistant. */
  #reasoning = '';

  addItem(item: ContentItem, place: string): void {
    switch (item.type) {
      case 'message':
        return this.#addMessage(item, place);
      case 'function_call':
        return this.#addCall(item, place);
      case 'function_call_output': {
        const content = toContent(item.output, `${place}.output`, ANY_PART);
        this.#joinTurn();
        return this.add({ role: 'tool', content, tool_call_id: item.call_id }, place);
      }
      case 'reasoning': {
        const content = item.content ?? [];
        const parts = content.length > 0 ? content : (item.summary ?? []);
        const readable = parts.map(({ text }) => text).join('\n\n');
        this.#reasoning += readable === '' ? fromCarried(item.encrypted_content ?? '') : readable;
      }
    }
  }

  add(message: Message, place: string): void {
    this.messages.push(message);
    this.places.push(place);
  }

  #addMessage({ role, content }: Of<'message'>, place: string): void {
    const converted = toContent(content, `${place}.content`, role === 'assistant' ? TEXT_PARTS : ANY_PART);
    if (role === 'assistant') return this.#addAssistant({ content: converted }, place);
    if (role === 'user') {
      // Reasoning that was cut off is a turn of its own: many templates refuse two turns of the user in a row.
      if (this.#reasoning !== '') this.#addAssistant({ content: '' }, place);
      return this.add({ role, content: converted }, place);
    }
    // Many templates allow one system message, and only as the first.
    const [first, second] = this.messages;
    if (first?.role !== 'system' || second !== undefined || typeof first.content !== 'string') {
      return this.add({ role: 'system', content: converted }, place);
    }
    if (typeof converted === 'string') first.content += `\n\n${converted}`;
    else this.add({ role: 'system', content: converted }, place);
  }

  #addAssistant(message: Omit<Message, 'role'>, place: string): void {
    const reasoning = this.#reasoning;
    this.#reasoning = '';
    this.add({ role: 'assistant', ...message, ...(reasoning === '' ? {} : { reasoning }) }, place);
  }

  #addCall({ call_id: id, name, namespace, arguments: text }: Of<'function_call'>, place: string): void {
    const call = { id, name: flatName(namespace ?? null, name), arguments: text };
    const last = this.messages.at(-1);
    if (last?.role !== 'assistant' || this.#reasoning !== '') {
      return this.#addAssistant({ content: '', tool_calls: [call] }, place);
    }
    addCalls(last, [call], place);
  }

  /** Joins the last messages, if they are the assistant's, from the first that has calls. */
  #joinTurn(): void {
    const { messages, places } = this;
    let first = messages.length;
    for (let index = first - 1; messages[index]?.role === 'assistant'; index--) {
      if (messages[index]?.tool_calls !== undefined) first = index;
    }
    const later = messages.splice(first + 1);
    const laterPlaces = places.splice(first + 1);
    const message = messages[first];
    if (message === undefined || later.length === 0) return;
    const turn = [message, ...later];
    message.content = joined(turn.flatMap(({ content }) => partsOf(content)));
    const thoughts = turn.flatMap(({ reasoning }) => reasoning ?? []);
    if (thoughts.length > 0) message.reasoning = thoughts.join('\n\n');
    for (const [index, { tool_calls: calls = [] }] of later.entries()) {
      addCalls(message, calls, laterPlaces[index] as string);
    }
  }
}

/** Throws INVALID_REQUEST for too many calls. `place`: of the last ones. */
function addCalls(message: Message, more: readonly ToolCall[], place: string): void {
  const calls = (message.tool_calls ??= []);
  if (calls.length + more.length > LIMITS.tools) {
    throw invalid(place, `is one of more than ${String(LIMITS.tools)} calls at once`);
  }
  calls.push(...more);
}

/** Without texts of only white space. */
function partsOf(content: Message['content']): ContentPart[] {
  const parts: ContentPart[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.filter((part) => part.type !== 'text' || part.text.trim() !== '');
}

const TEXT_PARTS = ['output_text', 'input_text', 'refusal'] as const;
const ANY_PART = ['input_text', 'input_image', 'input_audio', 'output_text'] as const;

function toContent(content: Parts, param: string, types: readonly string[]): Message['content'] {
  if (typeof content === 'string') return content;
  return joined(content.map((part, index) => toPart(part, `${param}[${String(index)}]`, types)));
}

function toPart(part: Readonly<Record<string, unknown>>, param: string, types: readonly string[]): ContentPart {
  const { type } = part;
  if (typeof type !== 'string' || !types.includes(type)) {
    throw invalid(`${param}.type`, `must be ${types.map((each) => `"${each}"`).join(' or ')}; files are not supported`);
  }
  switch (type) {
    case 'input_image': {
      const { image_url: url, file_id: file } = part;
      if (file !== undefined && file !== null) throw invalid(`${param}.file_id`, 'is not supported: send image_url');
      if (typeof url !== 'string') throw invalid(`${param}.image_url`, 'must be string');
      return toImage(url, `${param}.image_url`);
    }
    case 'input_audio':
      return toAudio(part['input_audio'], `${param}.input_audio`);
    default: {
      const field = type === 'refusal' ? 'refusal' : 'text';
      const text = part[field];
      if (typeof text !== 'string') throw invalid(`${param}.${field}`, 'must be string');
      return { type: 'text', text };
    }
  }
}
