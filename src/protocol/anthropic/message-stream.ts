/**
 * Converts the events of an answer to those of Anthropic's stream: `message_start`, then blocks, each with `start`,
 * `delta`s and `stop`, then `message_delta` with the reason and the usage, and `message_stop`.
 *
 * Blocks of text and thinking end where the next begins. A part of an earlier call, which some servers send, is a delta
 * of its block all the same.
 */
import type { AnswerEvent, FinishEvent, StartEvent, ToolCallEvent } from '../generate.ts';
import { toHead, toSignature, toUsage, type AnswerOptions } from './message.ts';
import { toStopReason } from './stop-reason.ts';

/** An event of the stream; `type` is also its SSE name. */
export interface StreamEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

type BlockType = 'text' | 'thinking' | 'tool_use';

const EMPTY: Readonly<Record<Exclude<BlockType, 'tool_use'>, object>> = {
  text: { type: 'text', text: '' },
  thinking: { type: 'thinking', thinking: '', signature: '' },
};

/** Also the heartbeat: Anthropic's clients ignore it anywhere. */
export const PING: StreamEvent = { type: 'ping' };

export class MessageStream {
  readonly #options: AnswerOptions;
  #provider = '';
  /** Number of blocks begun; the last one is open unless `#open` is null. */
  #blocks = 0;
  #open: BlockType | null = null;
  #hasText = false;
  /** Hidden thoughts of the open block. */
  #thoughts = '';
  /** Block of each call, by the call's index. */
  readonly #calls = new Map<number, number>();

  constructor(options: AnswerOptions) {
    this.#options = options;
  }

  /** Throws CANCELLED for a cancelled answer. */
  read(event: AnswerEvent): StreamEvent[] {
    switch (event.type) {
      case 'route':
        return [];
      case 'start':
        return this.#start(event);
      case 'text':
        return [...this.#begin('text'), this.#delta({ type: 'text_delta', text: event.text })];
      case 'reasoning':
        return this.#think(event.text);
      case 'tool_call':
        return this.#call(event);
      case 'finish':
        return this.#finish(event);
    }
  }

  #start(start: StartEvent): StreamEvent[] {
    this.#provider = start.provider;
    return [{ type: 'message_start', message: toHead(this.#options.id, start) }, PING];
  }

  #think(text: string): StreamEvent[] {
    const begun = this.#begin('thinking');
    if (this.#options.showsThinking) return [...begun, this.#delta({ type: 'thinking_delta', thinking: text })];
    this.#thoughts += text;
    return begun;
  }

  #call({ index, id = '', name = '', arguments: json }: ToolCallEvent): StreamEvent[] {
    const begun = this.#calls.has(index) ? [] : this.#openBlock('tool_use', { type: 'tool_use', id, name, input: {} });
    const block = this.#calls.get(index) ?? this.#blocks - 1;
    this.#calls.set(index, block);
    return json === '' ? begun : [...begun, this.#delta({ type: 'input_json_delta', partial_json: json }, block)];
  }

  #finish(finish: FinishEvent): StreamEvent[] {
    const { maxTokens } = this.#options;
    const stop_reason = toStopReason(finish, this.#provider, maxTokens);
    return [
      // Clients read a text unless there is a call.
      ...(this.#hasText || this.#calls.size > 0 || maxTokens === 0 ? [] : this.#begin('text')),
      ...this.#close(),
      {
        type: 'message_delta',
        delta: { stop_reason, stop_sequence: finish.stop_string ?? null, stop_details: null, container: null },
        usage: toUsage(finish.usage),
      },
      { type: 'message_stop' },
    ];
  }

  /** Opens a block unless one of this type is open. */
  #begin(type: Exclude<BlockType, 'tool_use'>): StreamEvent[] {
    if (type === 'text') this.#hasText = true;
    return this.#open === type ? [] : this.#openBlock(type, EMPTY[type]);
  }

  #openBlock(type: BlockType, content_block: object): StreamEvent[] {
    const closed = this.#close();
    this.#open = type;
    this.#blocks += 1;
    return [...closed, { type: 'content_block_start', index: this.#blocks - 1, content_block }];
  }

  #close(): StreamEvent[] {
    const type = this.#open;
    this.#open = null;
    if (type === null) return [];
    const signed = type === 'thinking' ? [this.#sign()] : [];
    return [...signed, { type: 'content_block_stop', index: this.#blocks - 1 }];
  }

  /** One delta: clients keep only the last signature of a block. */
  #sign(): StreamEvent {
    const signature = toSignature(this.#thoughts, this.#options.showsThinking);
    this.#thoughts = '';
    return this.#delta({ type: 'signature_delta', signature });
  }

  #delta(delta: object, index = this.#blocks - 1): StreamEvent {
    return { type: 'content_block_delta', index, delta };
  }
}
