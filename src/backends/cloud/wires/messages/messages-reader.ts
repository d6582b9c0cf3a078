/** Reads the Messages API: content blocks are opened, filled and closed one after another. */
import * as v from 'valibot';
import { FINISH_REASONS } from '../../../../protocol/anthropic/stop-reason.ts';
import { COUNTS, fromCounts, type Counts } from '../../../../protocol/anthropic/usage.ts';
import { SvcError } from '../../../../protocol/errors.ts';
import { given } from '../../../../protocol/given.ts';
import { LIMITS } from '../../../../protocol/limits.ts';
import { brokenOff, notTheApi, readEvent } from '../../answer.ts';
import { openAiError } from '../../openai-error.ts';
import { toSvcError } from '../../provider-error.ts';
import type { ServerEvent, WireEvent, WireReader } from '../../wire.ts';

const UsageSchema = v.object(COUNTS);
const text = v.nullish(v.string(), '');
/** One schema for all events: unknown events and fields are ignored, as the API requires. */
const EventSchema = v.object({
  type: v.string(),
  index: v.optional(v.number(), 0),
  message: v.optional(v.object({ model: v.optional(v.string()), usage: v.nullish(UsageSchema) })),
  content_block: v.optional(
    v.object({ type: v.string(), id: text, name: text, input: v.optional(v.unknown()), text, thinking: text }),
  ),
  delta: v.optional(
    v.object({
      text,
      thinking: text,
      partial_json: text,
      stop_reason: v.nullish(v.string()),
      stop_sequence: v.nullish(v.pipe(v.string(), v.maxLength(LIMITS.stopStringBytes))),
    }),
  ),
  usage: v.nullish(UsageSchema),
  error: v.optional(v.unknown()),
});

interface OpenCall {
  readonly index: number;
  /** From the opening of the block; complete if the server does not stream the input. */
  readonly input: unknown;
  hasArguments: boolean;
}

export class MessagesReader implements WireReader {
  /** Calls with an open block, by block index. */
  readonly #calls = new Map<number, OpenCall>();
  #callCount = 0;
  readonly #counts: Counts = {};
  #reason = 'for no reason';
  #stopString: string | undefined;
  #isComplete = false;

  read({ data }: ServerEvent): readonly WireEvent[] {
    if (data === '') return [];
    const event = readEvent(EventSchema, data);
    switch (event.type) {
      case 'message_start':
        this.#count(event.message?.usage);
        return event.message?.model === undefined ? [] : [{ type: 'started', model: event.message.model }];
      case 'content_block_start':
        return event.content_block === undefined ? [] : this.#open(event.index, event.content_block);
      case 'content_block_delta':
        return event.delta === undefined ? [] : this.#fill(event.index, event.delta);
      case 'content_block_stop':
        return this.#close(event.index);
      case 'message_delta':
        this.#count(event.usage);
        this.#reason = event.delta?.stop_reason ?? this.#reason;
        this.#stopString = event.delta?.stop_sequence ?? this.#stopString;
        return [];
      case 'message_stop':
        this.#isComplete = true;
        return [...[...this.#calls.keys()].flatMap((index) => this.#close(index)), ...this.#finish()];
      case 'error':
        throw toSvcError(openAiError(event), null);
      default:
        return [];
    }
  }

  end(): readonly WireEvent[] {
    if (!this.#isComplete) throw brokenOff();
    return [];
  }

  #open(index: number, block: NonNullable<v.InferOutput<typeof EventSchema>['content_block']>): WireEvent[] {
    if (block.type !== 'tool_use') return words(block);
    if (block.id === '' || block.name === '') throw notTheApi('a tool call without an id or a name');
    const call = { index: this.#callCount++, input: block.input, hasArguments: false };
    this.#calls.set(index, call);
    return [{ type: 'tool_call', index: call.index, id: block.id, name: block.name, arguments: '' }];
  }

  #fill(index: number, delta: NonNullable<v.InferOutput<typeof EventSchema>['delta']>): WireEvent[] {
    const call = this.#calls.get(index);
    // Without a call it is the input of a server-side tool.
    if (delta.partial_json === '' || call === undefined) return words(delta);
    call.hasArguments = true;
    return [{ type: 'tool_call', index: call.index, arguments: delta.partial_json }];
  }

  #close(index: number): WireEvent[] {
    const call = this.#calls.get(index);
    this.#calls.delete(index);
    if (call === undefined || call.hasArguments) return [];
    return [{ type: 'tool_call', index: call.index, arguments: JSON.stringify(call.input ?? {}) }];
  }

  /** Counts are totals so far; absent counts are unchanged. */
  #count(counts: Counts | null | undefined): void {
    for (const [name, figure] of Object.entries(counts ?? {})) {
      if (typeof figure === 'number') this.#counts[name as keyof Counts] = figure;
    }
  }

  #finish(): WireEvent[] {
    const reason = FINISH_REASONS.get(this.#reason);
    if (reason === undefined) {
      throw new SvcError('PROVIDER_FAILED', 'the provider aborted its answer', { quote: this.#reason });
    }
    const usage = fromCounts(this.#counts);
    return [
      ...(usage === null ? [] : [{ type: 'usage' as const, usage }]),
      { type: 'finish', reason, ...given({ stop_string: this.#stopString }) },
    ];
  }
}

function words({ text, thinking }: { text: string; thinking: string }): WireEvent[] {
  return [
    ...(thinking === '' ? [] : [{ type: 'reasoning' as const, text: thinking }]),
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
  ];
}
