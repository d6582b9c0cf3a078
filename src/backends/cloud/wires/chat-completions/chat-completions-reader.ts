/**
 * Reads Chat Completions streams in the variants of many servers: usage at the top, in the choice or in `x_groq`; empty
 * choices; reasoning in `reasoning_content`, in `reasoning` or in tags; tool calls without index, without id, or all
 * with the same index; a whole message instead of deltas; errors in many formats.
 *
 * Text of only white space beside calls is dropped: it belongs to the model's own format of calls, and APIs refuse it
 * when a client sends the answer back.
 */
import * as v from 'valibot';
import { SvcError } from '../../../../protocol/errors.ts';
import type { FinishReason, TokenLogprob, TokenLogprobs, Usage } from '../../../../protocol/generate.ts';
import { brokenOff, readEvent } from '../../answer.ts';
import { openAiError } from '../../openai-error.ts';
import { toSvcError } from '../../provider-error.ts';
import { ThinkTags, type Split } from '../../think-tags.ts';
import { ToolCalls } from '../../tool-calls.ts';
import type { ServerEvent, WireEvent, WireReader } from '../../wire.ts';

const text = v.nullish(v.string(), '');
const figure = v.fallback(v.nullish(v.number(), null), null);

const UsageSchema = v.object({
  prompt_tokens: v.number(),
  completion_tokens: v.nullish(v.number(), 0),
  prompt_tokens_details: v.nullish(v.object({ cached_tokens: figure })),
  completion_tokens_details: v.fallback(v.nullish(v.object({ reasoning_tokens: figure })), null),
  /** DeepSeek's and Moonshot's names for cached prompt tokens. */
  prompt_cache_hit_tokens: figure,
  cached_tokens: figure,
});
const usage = v.fallback(v.nullish(UsageSchema, null), null);

const TokenSchema = v.object({ token: v.string(), bytes: v.nullish(v.array(v.number())), logprob: v.number() });
const LogprobsSchema = v.object({
  content: v.nullish(v.array(v.object({ ...TokenSchema.entries, top_logprobs: v.nullish(v.array(TokenSchema)) })), []),
});

const ToolCallSchema = v.object({
  index: v.nullish(v.number(), null),
  id: text,
  function: v.nullish(
    v.object({ name: text, arguments: v.nullish(v.union([v.string(), v.record(v.string(), v.unknown())]), '') }),
    { name: '', arguments: '' },
  ),
});

/** Magistral sends content in parts, some of which are reasoning. */
const PartSchema = v.object({ type: v.string(), text, thinking: v.nullish(v.array(v.object({ text })), []) });

const DeltaSchema = v.object({
  content: v.nullish(v.union([v.string(), v.array(PartSchema)]), ''),
  reasoning_content: text,
  reasoning: text,
  refusal: text,
  tool_calls: v.nullish(v.array(ToolCallSchema), []),
});

const ChunkSchema = v.object({
  id: text,
  model: text,
  choices: v.nullish(
    v.array(
      v.object({
        delta: v.nullish(DeltaSchema, null),
        message: v.nullish(DeltaSchema, null),
        finish_reason: text,
        logprobs: v.nullish(LogprobsSchema, null),
        usage,
      }),
    ),
    [],
  ),
  usage,
  x_groq: v.nullish(v.object({ usage, error: text }), null),
});

type Chunk = v.InferOutput<typeof ChunkSchema>;
type Choice = Chunk['choices'][number];
type Delta = v.InferOutput<typeof DeltaSchema>;

/** Any other value means that the model ended its turn. */
const FINISH: ReadonlyMap<string, FinishReason> = new Map([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
]);
/** Finish reasons that report a server failure. */
const GAVE_UP = new Set(['error', 'abort', 'network_error', 'insufficient_system_resource']);

export class ChatCompletionsReader implements WireReader {
  readonly #tags = new ThinkTags();
  readonly #calls = new ToolCalls();
  #model = '';
  #answerId = '';
  #reason: FinishReason | null = null;
  #refused = false;
  /** White space at the beginning of a text, held back until more of the text comes. */
  #blank = '';
  /** True if the text since the last call has more than white space. */
  #hasText = false;
  /** Log probabilities of text that is held back, here or by ThinkTags. */
  #logprobs: TokenLogprobs[] = [];

  read({ data }: ServerEvent): readonly WireEvent[] {
    if (data === '' || data === '[DONE]') return [];
    const chunk = readEvent(ChunkSchema, data);
    const [choice] = chunk.choices;
    if (choice === undefined || data.includes('"error"') || data.includes('"base_resp"')) refuseErrors(data, chunk);
    const events: WireEvent[] = [];
    if (this.#model === '' && chunk.model !== '') {
      this.#model = chunk.model;
      events.push({ type: 'started', model: chunk.model });
    }
    this.#answerId ||= chunk.id;
    if (choice !== undefined) this.#choice(choice, events);
    const counted = chunk.usage ?? choice?.usage ?? chunk.x_groq?.usage ?? null;
    if (counted !== null) events.push({ type: 'usage', usage: toUsage(counted) });
    return events;
  }

  end(): readonly WireEvent[] {
    if (this.#reason === null) throw brokenOff();
    const events: WireEvent[] = [];
    this.#split(this.#tags.release(), events);
    if (this.#blank !== '' && this.#calls.isEmpty) this.#send('', events);
    return events;
  }

  #choice(choice: Choice, events: WireEvent[]): void {
    const delta = choice.delta ?? choice.message;
    if (choice.logprobs !== null) this.#logprobs.push(...choice.logprobs.content.map(toTokenLogprobs));
    if (delta !== null) this.#delta(delta, events);
    const reason = choice.finish_reason;
    if (reason === '' || this.#reason !== null) return;
    if (GAVE_UP.has(reason)) throw new SvcError('PROVIDER_FAILED', `the provider aborted its answer: ${reason}`);
    this.#calls.end();
    this.#reason = this.#finish(FINISH.get(reason) ?? 'stop');
    events.push({ type: 'finish', reason: this.#reason });
  }

  #finish(reason: FinishReason): FinishReason {
    if (reason !== 'stop') return reason;
    if (this.#refused) return 'content_filter';
    return this.#calls.isEmpty ? 'stop' : 'tool_calls';
  }

  #delta(delta: Delta, events: WireEvent[]): void {
    // vLLM sends the same text in both fields.
    this.#reasoning(delta.reasoning_content || delta.reasoning, events);
    if (typeof delta.content === 'string') this.#text(delta.content, events);
    else {
      for (const part of delta.content) {
        this.#reasoning(part.thinking.map(({ text }) => text).join(''), events);
        this.#text(part.text, events);
      }
    }
    if (delta.refusal !== '') {
      this.#refused = true;
      this.#text(delta.refusal, events);
    }
    for (const [position, { index, id, function: called }] of delta.tool_calls.entries()) {
      const { name, arguments: pieces } = called;
      const event = this.#calls.add({
        index,
        position,
        id,
        name,
        arguments: typeof pieces === 'string' ? pieces : JSON.stringify(pieces),
        answerId: this.#answerId,
      });
      if (event === null) continue;
      if (event.name !== undefined) this.#endText(events);
      events.push(event);
    }
  }

  #reasoning(text: string, events: WireEvent[]): void {
    if (text === '') return;
    this.#tags.off();
    events.push({ type: 'reasoning', text });
  }

  #text(piece: string, events: WireEvent[]): void {
    if (piece !== '') this.#split(this.#tags.push(piece), events);
  }

  #split({ reasoning, text }: Split, events: WireEvent[]): void {
    if (reasoning !== '') {
      events.push({ type: 'reasoning', text: reasoning });
      this.#logprobs = [];
    }
    if (text === '') return;
    if (this.#hasText || text.trim() !== '') this.#send(text, events);
    else this.#blank += text;
  }

  /** Sends the text, after the white space that was held back. */
  #send(text: string, events: WireEvent[]): void {
    const whole = this.#blank + text;
    const logprobs = this.#logprobs;
    this.#hasText = true;
    this.#blank = '';
    this.#logprobs = [];
    events.push({ type: 'text', text: whole, ...(logprobs.length === 0 ? {} : { logprobs }) });
  }

  /** Sends what is held back before a call; drops it if it is only white space. */
  #endText(events: WireEvent[]): void {
    this.#split(this.#tags.release(), events);
    if (this.#blank !== '') this.#logprobs = [];
    this.#blank = '';
    this.#hasText = false;
  }
}

/** Throws if the event contains an error instead of a part of the answer. */
function refuseErrors(data: string, { x_groq: groq }: Chunk): void {
  const error = openAiError(JSON.parse(data));
  if (error !== null) throw toSvcError(error, null);
  if (groq !== null && groq.error !== '') throw toSvcError({ message: groq.error, code: null }, null);
}

function toUsage(counted: v.InferOutput<typeof UsageSchema>): Usage {
  const { prompt_tokens_details: details, prompt_cache_hit_tokens: hit, cached_tokens: cached } = counted;
  const reasoning = counted.completion_tokens_details?.reasoning_tokens ?? 0;
  return {
    input_tokens: counted.prompt_tokens,
    output_tokens: counted.completion_tokens,
    ...(reasoning === 0 ? {} : { reasoning_tokens: reasoning }),
    cached_tokens: details?.cached_tokens ?? hit ?? cached ?? 0,
  };
}

type WireToken = v.InferOutput<typeof TokenSchema> & {
  readonly top_logprobs?: readonly WireToken[] | null | undefined;
};

function toTokenLogprobs(token: WireToken): TokenLogprobs {
  return { ...toTokenLogprob(token), top: (token.top_logprobs ?? []).map(toTokenLogprob) };
}

function toTokenLogprob({ token, bytes, logprob }: WireToken): TokenLogprob {
  return { token, bytes: bytes ?? [...Buffer.from(token)], logprob };
}
