/**
 * Converts the events of a generation to those of the Responses API, and adds up the response.
 *
 * Items come one after the other: reasoning, messages, calls. An item begins with its first text and ends when another
 * one begins. A call whose arguments are not complete by then stays open until the end, because some providers mix the
 * pieces of several calls. Every event has the next `sequence_number`.
 */
import { toCarried } from '../../history/carried-reasoning.ts';
import { SvcError } from '../../errors.ts';
import type { AnswerEvent, FinishEvent, RouteEvent, StartEvent, TokenLogprobs, ToolCallEvent } from '../../generate.ts';
import { parsedJson } from '../../foreign-text.ts';
import { openAiMessage, toOpenAiError } from '../error.ts';
import {
  itemIdOf,
  type FunctionCallItem,
  type ItemStatus,
  type OutputItem,
  type ReasoningItem,
  type TokenLogprobRecord,
} from './items.ts';
import { codeOf, toResponse, type ResponseFacts, type ResponseRecord, type ResponseStatus } from './response.ts';
import type { ResponsesCall } from './request.ts';
import { doneEvents, reasoningDelta, textDelta, type PartEvent } from './parts.ts';

/** An event as it is sent. */
export interface ResponseEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly [field: string]: unknown;
}

export interface ResponseBuilderOptions {
  readonly id: string;
  readonly call: ResponsesCall;
  /** True: the response will be stored. */
  readonly store: boolean;
  /** True: the answer does not end with its connection. */
  readonly background?: boolean;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class ResponseBuilder {
  readonly #options: ResponseBuilderOptions;
  readonly #now: () => number;
  readonly #createdAt: number;
  readonly #output: OutputItem[] = [];
  /** Indices of the items that are not done, in `#output`. */
  readonly #open = new Set<number>();
  /** For each call of the generation, its index in `#output`. */
  readonly #calls = new Map<number, number>();
  #sequence = 0;
  #completedAt: number | null = null;
  #status: ResponseStatus;
  #store: boolean;
  #start: StartEvent | null = null;
  #route: RouteEvent | null = null;
  #finish: FinishEvent | null = null;
  #error: SvcError | null = null;

  constructor(options: ResponseBuilderOptions) {
    const { store, background = false, now = Date.now } = options;
    this.#options = options;
    this.#now = now;
    this.#createdAt = this.#seconds();
    this.#status = background ? 'queued' : 'in_progress';
    this.#store = store;
  }

  get status(): ResponseStatus {
    return this.#status;
  }

  get response(): ResponseRecord {
    const { id, call } = this.#options;
    const facts: ResponseFacts = {
      id,
      createdAt: this.#createdAt,
      completedAt: this.#completedAt,
      status: this.#status,
      background: this.#options.background ?? false,
      model: this.#start?.model ?? call.request.model ?? '',
      settings: call.settings,
      store: this.#store,
      ignoredTools: call.tools.ignored,
      ignoredItems: call.ignoredItems,
      output: this.#output,
      start: this.#start,
      route: this.#route,
      finish: this.#finish,
      error: this.#error,
    };
    return toResponse(facts);
  }

  /** The response could not be stored. */
  notStored(): void {
    this.#store = false;
  }

  /** Throws CANCELLED for a cancelled answer: this API has no status for it. */
  take(event: AnswerEvent): ResponseEvent[] {
    switch (event.type) {
      case 'route':
        this.#route = event;
        return [];
      case 'start':
        this.#start = event;
        this.#status = 'in_progress';
        return this.#progress();
      case 'text':
        return this.#numbered(this.#text(event.text, event.logprobs ?? []));
      case 'reasoning':
        return this.#numbered(this.#reasoning(event.text));
      case 'tool_call':
        return this.#numbered(this.#call(event));
      case 'finish':
        return this.#numbered(this.#end(event));
    }
  }

  /**
   * Events for a client that waits: some have timers that SSE comments do not reset. None after the end. Clients may take
   * the response of the last one for the whole answer so far.
   */
  heartbeat(): ResponseEvent[] {
    return this.#status === 'in_progress' ? this.#progress() : [];
  }

  /** The last event of a complete answer. REQUIRES: `take` got the finish. */
  last(): ResponseEvent[] {
    return this.#numbered([{ type: `response.${this.#status}`, response: this.response }]);
  }

  /** The last events of an answer that failed; all of them, if it has had none. */
  fail(error: SvcError, requestId: string): ResponseEvent[] {
    const hasBegun = this.#sequence > 0 || this.#options.background === true;
    const first = hasBegun ? [] : [{ type: 'response.created', response: this.response }];
    this.#error = error;
    this.#status = 'failed';
    const { error: detail } = toOpenAiError(error, requestId) as { readonly error: object };
    return this.#numbered([
      ...first,
      { type: 'response.failed', response: this.response },
      // Flat as in the types of OpenAI's clients, and nested as their code reads it.
      { type: 'error', code: codeOf(error), message: openAiMessage(error), param: error.param ?? null, error: detail },
    ]);
  }

  /** The last events of an answer that its client has cancelled. OpenAI has no type for it. */
  cancel(): ResponseEvent[] {
    this.#status = 'cancelled';
    const events = [...this.#open].sort((a, b) => a - b).flatMap((index) => this.#close(index, 'incomplete'));
    return this.#numbered([...events, { type: 'response.cancelled', response: this.response }]);
  }

  #progress(): ResponseEvent[] {
    const { response } = this;
    const first = this.#sequence > 0 ? [] : [{ type: 'response.created', response }];
    return this.#numbered([...first, { type: 'response.in_progress', response }]);
  }

  #numbered(events: readonly PartEvent[]): ResponseEvent[] {
    return events.map((event): ResponseEvent => ({ ...event, sequence_number: this.#sequence++ }));
  }

  #text(text: string, logprobs: readonly TokenLogprobs[]): PartEvent[] {
    const { events, index, item } = this.#current('message', () => ({
      id: this.#newId('message'),
      type: 'message',
      status: 'in_progress',
      role: 'assistant',
      content: [],
    }));
    const records = logprobs.map(toRecord);
    return [...events, ...textDelta(item, index, text, records)];
  }

  #reasoning(text: string): PartEvent[] {
    const isSummary = this.#options.call.wantsSummary;
    const { events, index, item } = this.#current('reasoning', () => ({
      id: this.#newId('reasoning'),
      type: 'reasoning',
      status: 'in_progress',
      summary: [],
      ...(isSummary ? {} : { content: [] }),
    }));
    return [...events, ...reasoningDelta(item, index, text)];
  }

  #call({ index: position, id = '', name = '', arguments: piece }: ToolCallEvent): PartEvent[] {
    const known = this.#calls.get(position);
    const events: PartEvent[] = [];
    const index = known ?? this.#output.length;
    if (known === undefined) {
      events.push(...this.#closeOthers());
      const namespaced = this.#options.call.tools.namespaced.get(name);
      this.#calls.set(position, index);
      events.push(
        ...this.#add({
          id: this.#newId('function_call'),
          type: 'function_call',
          status: 'in_progress',
          call_id: id,
          name: namespaced?.name ?? name,
          ...(namespaced === undefined ? {} : { namespace: namespaced.namespace }),
          arguments: '',
        }),
      );
    }
    const item = this.#output[index] as FunctionCallItem;
    if (piece === '') return events;
    if (!this.#open.has(index))
      throw new SvcError('PROVIDER_FAILED', 'the provider extends a tool call that was complete');
    item.arguments += piece;
    events.push({
      type: 'response.function_call_arguments.delta',
      item_id: item.id,
      output_index: index,
      delta: piece,
    });
    return events;
  }

  /** The open item of the type, or a new one after all others that can be ended. */
  #current<Type extends 'message' | 'reasoning'>(
    type: Type,
    make: () => Extract<OutputItem, { type: Type }>,
  ): { events: PartEvent[]; index: number; item: Extract<OutputItem, { type: Type }> } {
    const last = this.#output.length - 1;
    const item = this.#output[last];
    if (item?.type === type && this.#open.has(last)) {
      return { events: [], index: last, item: item as Extract<OutputItem, { type: Type }> };
    }
    const made = make();
    const events = [...this.#closeOthers(), ...this.#add(made)];
    return { events, index: last + 1, item: made };
  }

  #add(item: OutputItem): PartEvent[] {
    const index = this.#output.push(item) - 1;
    this.#open.add(index);
    return [{ type: 'response.output_item.added', output_index: index, item: structuredClone(item) }];
  }

  #closeOthers(): PartEvent[] {
    return [...this.#open]
      .filter((index) => isComplete(this.#output[index] as OutputItem))
      .flatMap((index) => this.#close(index, 'completed'));
  }

  #close(index: number, status: ItemStatus): PartEvent[] {
    const item = this.#output[index] as OutputItem;
    this.#open.delete(index);
    item.status = status;
    if (item.type === 'reasoning' && this.#options.call.wantsEncrypted)
      item.encrypted_content = toCarried(textOf(item));
    return [
      ...doneEvents(item, index),
      { type: 'response.output_item.done', output_index: index, item: structuredClone(item) },
    ];
  }

  #end(event: FinishEvent): PartEvent[] {
    if (event.reason === 'cancelled') throw new SvcError('CANCELLED', 'the generation was cancelled');
    this.#finish = event;
    const isCut = event.reason === 'length' || event.reason === 'content_filter';
    // An answer without anything is an empty message: clients read the first item.
    const events = this.#output.length === 0 ? this.#text('', []) : [];
    const last = Math.max(...this.#open);
    for (const index of [...this.#open].sort((a, b) => a - b)) {
      events.push(...this.#close(index, isCut && index === last ? 'incomplete' : 'completed'));
    }
    this.#status = isCut ? 'incomplete' : 'completed';
    if (!isCut) this.#completedAt = this.#seconds();
    return events;
  }

  #newId(type: OutputItem['type']): string {
    return itemIdOf(this.#options.id, type, this.#output.length);
  }

  #seconds(): number {
    return Math.floor(this.#now() / 1000);
  }
}

/** False for a call whose arguments may continue. */
function isComplete(item: OutputItem): boolean {
  return item.type !== 'function_call' || parsedJson(item.arguments) !== undefined;
}

function textOf({ content, summary }: ReasoningItem): string {
  return (content ?? summary).map(({ text }) => text).join('');
}

function toRecord({ top, ...token }: TokenLogprobs): TokenLogprobRecord {
  return { ...token, top_logprobs: top };
}
