/** Converts answers and errors to OpenAI's format. Its clients ignore our `timings`, `hint` and `id`. */
import type { Collector } from '../collect.ts';
import { SvcError, type ErrorCode } from '../errors.ts';
import type { FinishEvent, TokenLogprobs, ToolCallEvent } from '../generate.ts';
import { given } from '../given.ts';
import type { ChatCompletionCall } from './chat-request.ts';
import { ignoredField } from './tools.ts';

/** Fields that every chunk of an answer repeats. */
export interface Answer {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

type OpenAiFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export interface Delta {
  readonly role?: 'assistant';
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly [
    {
      readonly index: number;
      readonly id?: string;
      readonly type?: 'function';
      readonly function: { readonly name?: string; readonly arguments: string };
    },
  ];
}

/** `choices`: at least one. The route, the provider and the timings are those of the first. */
export function toCompletion(
  answer: Answer,
  choices: readonly Collector[],
  { ignoredTools }: Pick<ChatCompletionCall, 'ignoredTools'>,
): object {
  const [first] = choices as [Collector];
  const usage = toUsage(choices, choices.length);
  return {
    ...answer,
    model: first.start.model,
    ...routedOf(first),
    object: 'chat.completion',
    choices: choices.map((choice, index) => ({
      index,
      message: toMessage(choice),
      logprobs: toLogprobs(choice.logprobs),
      finish_reason: toFinishReason(choice.finish),
    })),
    ...(usage === null ? {} : { usage }),
    ...ignoredField(ignoredTools),
    ...truncatedOf(first.finish),
    ...given({ repetition: choices.find(({ finish }) => finish.repetition)?.finish.repetition }),
    timings: first.finish.timings,
  };
}

/** The provider that answered and the route that led to it: our extension. */
export function routedOf({ start, route }: Collector): object {
  return { provider: start.provider, route: route.route };
}

/** Beside `usage`, not in it: a stream has `usage` only on request, but truncation must always be reported. */
export function truncatedOf({ usage }: Pick<FinishEvent, 'usage'>): { readonly truncated_tokens?: number } {
  return usage?.truncated_tokens === undefined ? {} : { truncated_tokens: usage.truncated_tokens };
}

function toMessage({ text, reasoning, toolCalls }: Collector): object {
  return {
    role: 'assistant',
    // null: only tool calls.
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map(({ id, ...call }) => ({ id, type: 'function', function: call })) }),
  };
}

export function toToolCallDelta({ index, id, name, arguments: piece }: ToolCallEvent): Delta {
  return {
    tool_calls: [
      {
        index,
        ...(id === undefined ? {} : { id, type: 'function' }),
        function: { ...given({ name }), arguments: piece },
      },
    ],
  };
}

function toLogprobs(logprobs: readonly TokenLogprobs[]): object | null {
  if (logprobs.length === 0) return null;
  return { content: logprobs.map(({ top, ...token }) => ({ ...token, top_logprobs: top })), refusal: null };
}

export function toChunk(
  answer: Answer,
  index: number,
  delta: Delta,
  includeUsage: boolean,
  logprobs: readonly TokenLogprobs[] = [],
): object {
  return {
    ...answer,
    object: 'chat.completion.chunk',
    choices: [{ index, delta, logprobs: toLogprobs(logprobs), finish_reason: null }],
    // If requested, null in all but the last chunk.
    ...(includeUsage ? { usage: null } : {}),
  };
}

/** The last chunk of a choice. */
export function toLastChunk(
  answer: Answer,
  index: number,
  facts: Collector,
  { includeUsage, ignoredTools }: Pick<ChatCompletionCall, 'includeUsage' | 'ignoredTools'>,
): object {
  return {
    ...answer,
    object: 'chat.completion.chunk',
    choices: [{ index, delta: {}, logprobs: null, finish_reason: toFinishReason(facts.finish) }],
    ...ignoredField(ignoredTools),
    ...endOf(facts, includeUsage),
  };
}

/** What the last chunk of a choice says besides its choice. */
export function endOf(facts: Collector, includeUsage: boolean): object {
  const { finish } = facts;
  return {
    ...(includeUsage ? { usage: null } : {}),
    ...routedOf(facts),
    ...truncatedOf(finish),
    ...given({ repetition: finish.repetition }),
    timings: finish.timings,
  };
}

/** The last chunk of a stream whose usage was requested; null: no usage is known. */
export function toUsageChunk(
  object: 'chat.completion.chunk' | 'text_completion',
  answer: Answer,
  choices: readonly Collector[],
  perPrompt: number,
): object | null {
  const usage = toUsage(choices, perPrompt);
  return usage === null ? null : { ...answer, object, choices: [], usage };
}

/** Throws CANCELLED for a cancelled answer: this API has no finish reason for it. */
export function toFinishReason(finish: FinishEvent): OpenAiFinishReason {
  if (finish.reason === 'cancelled') throw new SvcError('CANCELLED', 'the generation was cancelled');
  return finish.reason;
}

/** Each prompt counts once, however many choices were made from it. null: the usage of a choice is not known. */
export function toUsage(choices: readonly Collector[], perPrompt: number): object | null {
  let [input, cached, output, reasoning] = [0, 0, 0, 0];
  for (const [index, { finish }] of choices.entries()) {
    const { usage } = finish;
    if (usage === null) return null;
    output += usage.output_tokens;
    reasoning += usage.reasoning_tokens ?? 0;
    if (index % perPrompt !== 0) continue;
    input += usage.input_tokens;
    cached += usage.cached_tokens;
  }
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
    ...(reasoning === 0 ? {} : { completion_tokens_details: { reasoning_tokens: reasoning } }),
  };
}

/** Codes for which OpenAI has its own name, on which clients act. */
const CODES: Partial<Record<ErrorCode, string>> = {
  CONTEXT_OVERFLOW: 'context_length_exceeded',
  UNAUTHORIZED: 'invalid_api_key',
  BUSY: 'rate_limit_exceeded',
};

/** OpenAI's own name for the code of an error; undefined: it has none. */
export function openAiCode({ code }: SvcError): string | undefined {
  return CODES[code];
}

/** HTTP status of an error in this API, whose clients shorten a chat only after a 400. */
export function openAiStatus(error: SvcError): number {
  return error.code === 'CONTEXT_OVERFLOW' ? 400 : error.facts.http;
}

/**
 * Message of an error. That of a prompt that is too long has the words by which LangChain.js ("exceeds the context
 * window") and LiteLLM ("this model's maximum context length is") know it.
 */
export function openAiMessage({ code, told, overflow }: SvcError): string {
  if (code !== 'CONTEXT_OVERFLOW') return told;
  if (overflow === undefined) return `the prompt exceeds the context window: ${told}`;
  const { prompt_tokens, is_minimum, context_length } = overflow;
  const length = `this model's maximum context length is ${String(context_length)} tokens`;
  const size = `${is_minimum ? 'at least ' : ''}${String(prompt_tokens)}`;
  return `the prompt exceeds the context window: ${length}, and the prompt has ${size}, plus one for the answer`;
}

export function toOpenAiError(error: SvcError, id: string): object {
  return {
    error: {
      message: openAiMessage(error),
      type: error.facts.openai,
      param: error.param ?? null,
      code: openAiCode(error) ?? error.code.toLowerCase(),
      ...given({ hint: error.hint }),
      // Id of the request, also in its log line.
      id,
    },
  };
}
