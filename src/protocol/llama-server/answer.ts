/** Answers to `POST /completion` and `POST /infill` in llama-server's format. */
import type { Collector } from '../collect.ts';
import type { FinishEvent } from '../generate.ts';
import { given } from '../given.ts';
import { routedOf, toFinishReason } from '../openai/completion-response.ts';

/** The whole answer, or the last event of a stream, which has no more text. */
export function toAnswer(answer: Collector, content: string, names: readonly string[]): object {
  const { start, finish } = answer;
  const { usage } = finish;
  return onlyThe(names, {
    index: 0,
    content,
    stop: true,
    model: start.model,
    ...(usage === null
      ? {}
      : {
          tokens_predicted: usage.output_tokens,
          tokens_evaluated: usage.input_tokens,
          tokens_cached: usage.cached_tokens,
          truncated: (usage.truncated_tokens ?? 0) > 0,
        }),
    stop_type: stopTypeOf(finish),
    stopping_word: finish.stop_string ?? '',
    ...routedOf(answer),
    timings: timingsOf(finish),
  });
}

function stopTypeOf(finish: FinishEvent): 'limit' | 'word' | 'eos' {
  if (toFinishReason(finish) === 'length') return 'limit';
  return finish.stop_string === undefined ? 'eos' : 'word';
}

export function toChunk(content: string): object {
  return { index: 0, content, stop: false };
}

/**
 * The fields that a request's `response_fields` names; all, if it names none. `timings/prompt_n` is the field
 * `prompt_n` in `timings`, and keeps this name, as in llama-server.
 */
function onlyThe(names: readonly string[], answer: object): object {
  if (names.length === 0) return answer;
  const found = names.map((name) => [name, name.split('/').reduce(fieldOf, answer)]);
  return given(Object.fromEntries(found) as object);
}

function fieldOf(whole: unknown, field: string): unknown {
  const isThere = typeof whole === 'object' && whole !== null && Object.hasOwn(whole, field);
  return isThere ? (whole as Record<string, unknown>)[field] : undefined;
}

/** Under llama-server's names, in milliseconds and tokens. */
function timingsOf({ usage, timings }: FinishEvent): object {
  const { queue_ms, ttft_ms, total_ms, tokens_per_second } = timings;
  const promptTokens = usage === null ? null : usage.input_tokens - usage.cached_tokens;
  const promptMs = ttft_ms === null ? null : ttft_ms - queue_ms;
  return {
    ...(usage === null
      ? {}
      : { prompt_n: promptTokens, cache_n: usage.cached_tokens, predicted_n: usage.output_tokens }),
    ...(ttft_ms === null ? {} : { prompt_ms: promptMs, predicted_ms: total_ms - ttft_ms }),
    ...(promptTokens === null || promptMs === null
      ? {}
      : {
          prompt_per_token_ms: ratio(promptMs, promptTokens),
          prompt_per_second: ratio(promptTokens * 1000, promptMs),
        }),
    ...(tokens_per_second === null
      ? {}
      : { predicted_per_token_ms: ratio(1000, tokens_per_second), predicted_per_second: tokens_per_second }),
  };
}

/** 0 if it is not known, as in llama-server. */
function ratio(value: number, by: number): number {
  return by > 0 ? value / by : 0;
}
