/** Converts answers to the lines and records of `/api/chat` and `/api/generate`. */
import type { Collector } from '../collect.ts';
import { SvcError } from '../errors.ts';
import { parsedJson } from '../foreign-text.ts';
import type { FinishEvent, TokenLogprob, TokenLogprobs, ToolCall } from '../generate.ts';
import { given } from '../given.ts';

export type OllamaApi = 'chat' | 'generate';

/** A piece of an answer, or all of it. */
export interface OllamaPiece {
  readonly text?: string;
  readonly thinking?: string;
  readonly calls?: readonly object[];
  readonly logprobs?: readonly TokenLogprobs[];
}

const NANOSECONDS = 1_000_000;

/** A line before the last one. `model`: as the client spelled it. */
export function toLine(api: OllamaApi, model: string, piece: OllamaPiece): object {
  return { ...headOf(model), ...bodyOf(api, piece), done: false };
}

/** The last line, or with the whole answer in `piece` the record. `context`: that of `/api/generate`. */
export function toLastLine(
  api: OllamaApi,
  model: string,
  piece: OllamaPiece,
  finish: FinishEvent,
  context?: readonly number[],
): object {
  return {
    ...headOf(model),
    ...bodyOf(api, piece),
    done: true,
    done_reason: doneReason(finish),
    ...given({ context }),
    ...figuresOf(finish),
  };
}

/** The answer to a request that only loads or unloads the model. */
export function toLoadLine(api: OllamaApi, model: string, reason: 'load' | 'unload', milliseconds: number): object {
  const duration = nanoseconds(milliseconds);
  return {
    ...headOf(model),
    ...bodyOf(api, {}),
    done: true,
    done_reason: reason,
    ...(reason === 'load' ? { total_duration: duration, load_duration: duration } : {}),
  };
}

/** The whole answer, without the figures. */
export function wholeOf(answer: Collector): OllamaPiece {
  const { text, reasoning, logprobs } = answer;
  return { text, thinking: reasoning, calls: toCalls(answer), logprobs };
}

/**
 * The tool calls of an answer, whose arguments are objects in this API. A call that the end of the answer has cut off
 * is left out. Throws PROVIDER_FAILED for other arguments that are not an object.
 */
export function toCalls({ toolCalls, finish }: Collector): object[] {
  return toolCalls.flatMap((call, index) => {
    const parsed = argumentsOf(call);
    if (parsed !== undefined) return [{ id: call.id, function: { index, name: call.name, arguments: parsed } }];
    if (finish.reason === 'length') return [];
    throw new SvcError('PROVIDER_FAILED', 'the model has called a tool with arguments that are not a JSON object');
  });
}

function argumentsOf({ arguments: json }: ToolCall): object | undefined {
  const value = parsedJson(json === '' ? '{}' : json);
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
}

function headOf(model: string): object {
  return { model, created_at: new Date().toISOString() };
}

function bodyOf(api: OllamaApi, { text = '', thinking = '', calls = [], logprobs = [] }: OllamaPiece): object {
  const more = {
    ...(thinking === '' ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    ...(api === 'chat' ? { message: { role: 'assistant', content: text, ...more } } : { response: text, ...more }),
    ...(logprobs.length === 0 ? {} : { logprobs: logprobs.map(toLogprob) }),
  };
}

function toLogprob({ top, ...token }: TokenLogprobs): object {
  return { ...plain(token), ...(top.length === 0 ? {} : { top_logprobs: top.map(plain) }) };
}

function plain({ token, logprob, bytes }: TokenLogprob): object {
  return { token, logprob, bytes };
}

/** Throws CANCELLED for a cancelled answer: this API has no reason for it. */
function doneReason({ reason }: FinishEvent): string {
  if (reason === 'cancelled') throw new SvcError('CANCELLED', 'the generation was cancelled');
  return reason === 'tool_calls' ? 'stop' : reason;
}

/** Durations in nanoseconds. Loading includes the time in the queue. Truncation is our extension. */
function figuresOf({ usage, timings, repetition }: FinishEvent): object {
  const { queue_ms, ttft_ms, total_ms } = timings;
  const firstMs = ttft_ms ?? total_ms;
  return {
    total_duration: nanoseconds(total_ms),
    load_duration: nanoseconds(queue_ms),
    ...given({ prompt_eval_count: usage?.input_tokens }),
    prompt_eval_duration: nanoseconds(firstMs - queue_ms),
    ...given({ eval_count: usage?.output_tokens }),
    eval_duration: nanoseconds(total_ms - firstMs),
    ...given({ truncated_tokens: usage?.truncated_tokens, repetition }),
  };
}

function nanoseconds(milliseconds: number): number {
  return Math.max(0, Math.round(milliseconds * NANOSECONDS));
}

/** The figures of the answers with the vectors of one request. */
export function embedFigures(answers: readonly FinishEvent[]): object {
  const sum = (figure: (answer: FinishEvent) => number | undefined): number =>
    answers.reduce((before, answer) => before + (figure(answer) ?? 0), 0);
  const isCut = answers.some(({ usage }) => usage?.truncated_tokens !== undefined);
  return {
    total_duration: nanoseconds(sum(({ timings }) => timings.total_ms)),
    load_duration: nanoseconds(sum(({ timings }) => timings.queue_ms)),
    prompt_eval_count: sum(({ usage }) => usage?.input_tokens),
    ...given({ truncated_tokens: isCut ? sum(({ usage }) => usage?.truncated_tokens) : undefined }),
  };
}
