/**
 * Converts items to our messages. Several items make one message: the calls that follow a message of the assistant, or
 * one another, belong to it, and so does the reasoning before it.
 */
import { fromCarried } from '../../history/carried-reasoning.ts';
import type { ContentPart, Message } from '../../generate.ts';
import { LIMITS } from '../../limits.ts';
import { invalid } from '../../validate.ts';
import { joined, toAudio, toImage } from '../messages.ts';
import type { ContentItem, Placed } from './items.ts';
import { flatName } from './tools.ts';

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
    const calls = (last.tool_calls ??= []);
    if (calls.length >= LIMITS.tools) throw invalid(place, `is one of more than ${String(LIMITS.tools)} calls at once`);
    calls.push(call);
  }
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
