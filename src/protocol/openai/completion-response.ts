/**
 * The responses of chat completions and of legacy completions. They differ only in the content of a choice: all its
 * fields but `index` and `finish_reason`. OpenAI's clients ignore our `timings` and the other extensions.
 */
import type { Collector } from '../collect.ts';
import { SvcError } from '../errors.ts';
import type { FinishEvent } from '../generate.ts';
import { given } from '../given.ts';

/** Fields that every chunk of an answer repeats. */
export interface Head {
  readonly object: 'chat.completion' | 'chat.completion.chunk' | 'text_completion';
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

type OpenAiFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** `answers`: those to the first prompt first, `perPrompt` of them. The route and the timings are those of the first. */
export function toCompletion(
  head: Head,
  answers: readonly Collector[],
  perPrompt: number,
  contentOf: (answer: Collector, index: number) => object,
): object {
  const [first] = answers as [Collector];
  return {
    ...head,
    model: first.start.model,
    choices: answers.map((answer, index) => ({
      index,
      ...contentOf(answer, index),
      finish_reason: toFinishReason(answer.finish),
    })),
    ...given({ usage: toUsage(answers, perPrompt) }),
    ...endOf(first),
    ...given({ repetition: answers.find(({ finish }) => finish.repetition)?.finish.repetition }),
  };
}

/** `ended`: in the last chunk of a choice, its answer, whose content is not read. */
export function toChunk(
  head: Head,
  { index, content }: { readonly index: number; readonly content: object },
  includeUsage: boolean,
  ended?: Collector,
): object {
  return {
    ...head,
    choices: [{ index, ...content, finish_reason: ended === undefined ? null : toFinishReason(ended.finish) }],
    // If requested, null in all but the last chunk of the stream.
    ...(includeUsage ? { usage: null } : {}),
    ...(ended === undefined ? {} : endOf(ended)),
  };
}

/** Our extensions beside `usage`. */
function endOf(answer: Collector): object {
  const { repetition, timings } = answer.finish;
  return { ...routedOf(answer), ...truncatedOf(answer.finish), ...given({ repetition }), timings };
}

/** The last chunk of a stream whose usage was requested; null: no usage is known. */
export function toUsageChunk(head: Head, answers: readonly Collector[], perPrompt: number): object | null {
  const usage = toUsage(answers, perPrompt);
  return usage === undefined ? null : { ...head, choices: [], usage };
}

/** The provider that answered and the route that led to it: our extension. */
export function routedOf({ start, route }: Collector): object {
  return { provider: start.provider, route: route.route };
}

/** Beside `usage`, not in it: a stream has `usage` only on request, but truncation must always be reported. */
export function truncatedOf({ usage }: Pick<FinishEvent, 'usage'>): { readonly truncated_tokens?: number } {
  return usage?.truncated_tokens === undefined ? {} : { truncated_tokens: usage.truncated_tokens };
}

/** Throws CANCELLED for a cancelled answer: this API has no finish reason for it. */
export function toFinishReason(finish: FinishEvent): OpenAiFinishReason {
  if (finish.reason === 'cancelled') throw new SvcError('CANCELLED', 'the generation was cancelled');
  return finish.reason;
}

/** Each prompt counts once, however many answers were made to it. undefined: the usage of an answer is not known. */
function toUsage(answers: readonly Collector[], perPrompt: number): object | undefined {
  let [input, cached, output, reasoning] = [0, 0, 0, 0];
  for (const [index, { finish }] of answers.entries()) {
    const { usage } = finish;
    if (usage === null) return undefined;
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
