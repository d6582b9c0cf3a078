/** Reads streams of OpenAI's Responses API: events with a type in their data, of which we need a few. */
import * as v from 'valibot';
import type { FinishReason, TokenLogprobs, Usage } from '../../../../protocol/generate.ts';
import { brokenOff, notTheApi, readEvent } from '../../answer.ts';
import { maybe, openAiError } from '../../openai-error.ts';
import { toSvcError } from '../../provider-error.ts';
import { ToolCalls } from '../../tool-calls.ts';
import type { ServerEvent, WireError, WireEvent, WireReader } from '../../wire.ts';

const text = v.nullish(v.string(), '');
const index = v.nullish(v.number(), 0);

const UsageSchema = v.object({
  input_tokens: v.number(),
  output_tokens: v.number(),
  input_tokens_details: maybe(v.object({ cached_tokens: index })),
  output_tokens_details: maybe(v.object({ reasoning_tokens: index })),
});
const TokenSchema = v.object({ token: text, logprob: v.nullish(v.number(), -9999) });

const EventSchema = v.object({
  type: text,
  output_index: index,
  summary_index: index,
  delta: maybe(v.string()),
  logprobs: maybe(v.array(v.object({ ...TokenSchema.entries, top_logprobs: v.nullish(v.array(TokenSchema), []) }))),
  item: maybe(v.object({ type: v.string(), call_id: text, name: text, arguments: text })),
  response: maybe(
    v.object({
      id: text,
      model: text,
      usage: maybe(UsageSchema),
      incomplete_details: maybe(v.object({ reason: text })),
      error: maybe(v.object({ code: text, message: text })),
    }),
  ),
});

type Event = v.InferOutput<typeof EventSchema>;

export class ResponsesReader implements WireReader {
  readonly #calls = new ToolCalls();
  /** Calls by output index; true once any of their arguments have come. */
  readonly #begun = new Map<number, boolean>();
  #answerId = '';
  /** Last summary part sent, as `output_index/summary_index`. */
  #part: string | null = null;
  #refused = false;
  #reason: FinishReason | null = null;

  read({ name, data }: ServerEvent): readonly WireEvent[] {
    if (data === '') return [];
    const event = readEvent(EventSchema, data);
    switch (event.type || name) {
      case 'response.created':
        this.#answerId = event.response?.id ?? '';
        return [{ type: 'started', model: event.response?.model ?? '' }];
      case 'response.output_text.delta':
        return this.#text(event);
      case 'response.refusal.delta':
        this.#refused = true;
        return this.#text(event);
      case 'response.reasoning_summary_text.delta':
        return this.#summaryText(event);
      case 'response.reasoning_text.delta':
        return [{ type: 'reasoning', text: event.delta ?? '' }];
      case 'response.output_item.added':
        return this.#item(event, false);
      case 'response.output_item.done':
        return this.#item(event, true);
      case 'response.function_call_arguments.delta':
        this.#begun.set(event.output_index, true);
        return this.#call(event.output_index, { arguments: event.delta ?? '' });
      case 'response.completed':
        return this.#finish(event, this.#refused ? 'content_filter' : this.#calls.isEmpty ? 'stop' : 'tool_calls');
      case 'response.incomplete':
        return this.#finish(
          event,
          event.response?.incomplete_details?.reason === 'content_filter' ? 'content_filter' : 'length',
        );
      case 'response.failed':
        throw toSvcError(event.response?.error ?? null, null);
      case 'error':
      case '':
        throw toSvcError(errorOf(JSON.parse(data)), null);
      default:
        return [];
    }
  }

  end(): readonly WireEvent[] {
    if (this.#reason === null) throw brokenOff();
    return [];
  }

  #text({ delta, logprobs }: Event): WireEvent[] {
    if (delta === null) throw notTheApi('a text delta without text');
    if (logprobs === null || logprobs.length === 0) return [{ type: 'text', text: delta }];
    return [{ type: 'text', text: delta, logprobs: logprobs.map(toTokenLogprobs) }];
  }

  /** Summaries come in parts, each a paragraph. */
  #summaryText({ delta, output_index: output, summary_index: index }: Event): WireEvent[] {
    if (delta === null) return [];
    const part = `${String(output)}/${String(index)}`;
    const isNew = this.#part !== null && part !== this.#part;
    this.#part = part;
    return [{ type: 'reasoning', text: isNew ? `\n\n${delta}` : delta }];
  }

  /** The name comes when a call begins; the arguments come in deltas, or whole when the call is done. */
  #item({ item, output_index: position }: Event, isDone: boolean): WireEvent[] {
    if (item?.type !== 'function_call') return [];
    const events: WireEvent[] = [];
    if (!this.#begun.has(position)) {
      this.#begun.set(position, false);
      events.push(...this.#call(position, { id: item.call_id, name: item.name }));
    }
    if (isDone && this.#begun.get(position) === false) {
      this.#begun.set(position, true);
      events.push(...this.#call(position, { arguments: item.arguments }));
    }
    return events;
  }

  #call(position: number, told: { id?: string; name?: string; arguments?: string }): WireEvent[] {
    const { id = '', name = '', arguments: pieces = '' } = told;
    const event = this.#calls.add({ index: position, position, id, name, arguments: pieces, answerId: this.#answerId });
    return event === null ? [] : [event];
  }

  #finish({ response }: Event, reason: FinishReason): WireEvent[] {
    this.#calls.end();
    this.#reason = reason;
    const usage = response?.usage ?? null;
    return [...(usage === null ? [] : [{ type: 'usage' as const, usage: toUsage(usage) }]), { type: 'finish', reason }];
  }
}

/** OpenAI's own error is flat: `{"type": "error", "code", "message"}`. */
function errorOf(body: unknown): WireError | null {
  return openAiError(body) ?? openAiError({ error: body });
}

function toUsage(counted: v.InferOutput<typeof UsageSchema>): Usage {
  const reasoning = counted.output_tokens_details?.reasoning_tokens ?? 0;
  return {
    input_tokens: counted.input_tokens,
    output_tokens: counted.output_tokens,
    ...(reasoning === 0 ? {} : { reasoning_tokens: reasoning }),
    cached_tokens: counted.input_tokens_details?.cached_tokens ?? 0,
  };
}

/** The stream has no bytes, so tokens that are partial characters cannot be represented exactly. */
function toTokenLogprobs({ token, logprob, top_logprobs: top }: NonNullable<Event['logprobs']>[number]): TokenLogprobs {
  return {
    ...toToken(token, logprob),
    top: top.map((each) => toToken(each.token, each.logprob)),
  };
}

function toToken(token: string, logprob: number): { token: string; bytes: number[]; logprob: number } {
  return { token, bytes: [...Buffer.from(token)], logprob };
}
