/** Converts answers, models and errors to OpenAI's format. Its clients ignore our `timings`, `hint` and `id`. */
import type { Collector } from './collect.ts';
import { SvcError, type ErrorCode } from './errors.ts';
import type {
  FinishEvent,
  TokenLogprob,
  TokenLogprobs,
  Route,
  StartEvent,
  Timings,
  ToolCallEvent,
  Usage,
} from './generate.ts';
import { given } from './given.ts';
import type { ModelRecord } from './records.ts';

/** Fields that every chunk of an answer repeats. */
export interface Answer {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

/** The provider that answered and the route that led to it: our extension. */
export type Routed = Pick<StartEvent, 'provider'> & { readonly route: Route };

export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

type OpenAiFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export interface OpenAiToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface OpenAiMessage {
  readonly role: 'assistant';
  /** null: only tool calls. */
  readonly content: string | null;
  readonly refusal: null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly OpenAiToolCall[];
}

export interface OpenAiLogprobs {
  readonly content: readonly (OpenAiLogprob & { readonly top_logprobs: readonly OpenAiLogprob[] })[];
  readonly refusal: null;
}
type OpenAiLogprob = TokenLogprob;

export interface ChatCompletion extends Answer, Routed {
  readonly object: 'chat.completion';
  readonly choices: readonly [
    {
      readonly index: 0;
      readonly message: OpenAiMessage;
      readonly logprobs: OpenAiLogprobs | null;
      readonly finish_reason: OpenAiFinishReason;
    },
  ];
  readonly usage?: OpenAiUsage;
  readonly truncated_tokens?: number;
  readonly timings: Timings;
}

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

export interface ChatCompletionChunk extends Answer, Partial<Routed> {
  readonly object: 'chat.completion.chunk';
  /** Empty in the chunk that carries the usage. */
  readonly choices: readonly {
    readonly index: 0;
    readonly delta: Delta;
    readonly logprobs: OpenAiLogprobs | null;
    readonly finish_reason: OpenAiFinishReason | null;
  }[];
  /** Only with `include_usage`: null in all but the last chunk. */
  readonly usage?: OpenAiUsage | null;
  /** In the chunk with the finish reason, like `provider` and `route`. */
  readonly truncated_tokens?: number;
  readonly timings?: Timings;
}

export function toCompletion(answer: Answer, collected: Collector): ChatCompletion {
  const { start, finish, logprobs } = collected;
  return {
    ...answer,
    model: start.model,
    ...routedOf(collected),
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: toMessage(collected),
        logprobs: toLogprobs(logprobs),
        finish_reason: toFinishReason(finish),
      },
    ],
    ...(finish.usage === null ? {} : { usage: toUsage(finish.usage) }),
    ...truncatedOf(finish),
    timings: finish.timings,
  };
}

function routedOf({ start, route }: Collector): Routed {
  return { provider: start.provider, route: route.route };
}

/** Beside `usage`, not in it: a stream has `usage` only on request, but truncation must always be reported. */
export function truncatedOf({ usage }: FinishEvent): { readonly truncated_tokens?: number } {
  return usage?.truncated_tokens === undefined ? {} : { truncated_tokens: usage.truncated_tokens };
}

function toMessage({ text, reasoning, toolCalls }: Collector): OpenAiMessage {
  return {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map(({ id, ...call }) => ({ id, type: 'function' as const, function: call })) }),
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

function toLogprobs(logprobs: readonly TokenLogprobs[]): OpenAiLogprobs | null {
  if (logprobs.length === 0) return null;
  return { content: logprobs.map(({ top, ...token }) => ({ ...token, top_logprobs: top })), refusal: null };
}

export function toChunk(
  answer: Answer,
  delta: Delta,
  includeUsage: boolean,
  logprobs: readonly TokenLogprobs[] = [],
): ChatCompletionChunk {
  return {
    ...answer,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs: toLogprobs(logprobs), finish_reason: null }],
    ...(includeUsage ? { usage: null } : {}),
  };
}

/** Last chunks of a stream: the one with the finish reason, then the one with the usage if requested. */
export function toLastChunks(answer: Answer, facts: Collector, includeUsage: boolean): readonly ChatCompletionChunk[] {
  const { finish } = facts;
  const last: ChatCompletionChunk = {
    ...answer,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: toFinishReason(finish) }],
    ...(includeUsage ? { usage: null } : {}),
    ...routedOf(facts),
    ...truncatedOf(finish),
    timings: finish.timings,
  };
  if (!includeUsage || finish.usage === null) return [last];
  return [last, { ...answer, object: 'chat.completion.chunk', choices: [], usage: toUsage(finish.usage) }];
}

/** Throws CANCELLED for a cancelled answer: this API has no finish reason for it. */
function toFinishReason(finish: FinishEvent): OpenAiFinishReason {
  if (finish.reason === 'cancelled') throw new SvcError('CANCELLED', 'the generation was cancelled');
  return finish.reason;
}

function toUsage(usage: Usage): OpenAiUsage {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.input_tokens + usage.output_tokens,
    prompt_tokens_details: { cached_tokens: usage.cached_tokens },
  };
}

export interface OpenAiModel {
  readonly id: string;
  readonly object: 'model';
  readonly created: number;
  readonly owned_by: 'svc';
  /** In tokens; vLLM's name for the field. */
  readonly max_model_len: number | null;
}

export function toModel(record: ModelRecord): OpenAiModel {
  return {
    id: record.id,
    object: 'model',
    created: Math.floor(Date.parse(record.modified_at) / 1000),
    owned_by: 'svc',
    max_model_len: record.loaded?.context_length ?? record.context_length,
  };
}

export interface OpenAiError {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
    readonly hint?: string;
    /** Id of the request, also in its log line. */
    readonly id: string;
  };
}

/** Codes for which OpenAI has its own name, on which clients act. */
const CODES: Partial<Record<ErrorCode, string>> = {
  CONTEXT_OVERFLOW: 'context_length_exceeded',
  UNAUTHORIZED: 'invalid_api_key',
  BUSY: 'rate_limit_exceeded',
};

export function toOpenAiError(error: SvcError, id: string): OpenAiError {
  return {
    error: {
      message: error.told,
      type: error.facts.openai,
      param: error.param ?? null,
      code: CODES[error.code] ?? error.code.toLowerCase(),
      ...given({ hint: error.hint }),
      id,
    },
  };
}
