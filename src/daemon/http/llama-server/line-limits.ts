/**
 * llama-server's limits of an answer by its lines, for editors: `n_indent` and `t_max_predict_ms`. A reached limit ends
 * the generation in the engine, and the answer as one that has reached its number of tokens.
 */
import type { AnswerEvent, FinishEvent } from '../../../protocol/generate.ts';
import type { LineLimits } from '../../../protocol/llama-server/call.ts';
import type { Events } from '../openai/choices.ts';

type Clock = () => number;

/**
 * The events up to the first limit. `arrivedAt`: when the request arrived, by the same clock. The last event of an
 * answer that was ended has no usage: the engine reports it only with an end of its own.
 */
export async function* withLineLimits(
  events: Events,
  limits: LineLimits,
  arrivedAt: number,
  now: Clock = () => performance.now(),
): AsyncGenerator<AnswerEvent, void, undefined> {
  const lines = new Lines(limits);
  let startedAt = arrivedAt;
  let firstAt: number | undefined;
  for await (const event of events) {
    if (event.type === 'start') startedAt = now();
    if (event.type !== 'text') {
      yield event;
      continue;
    }
    const at = now();
    firstAt ??= at;
    const kept = lines.keptOf(event.text, at - firstAt);
    if (kept === undefined) {
      yield event;
      continue;
    }
    if (kept !== '') yield { type: 'text', text: kept };
    yield finishOf({ queue_ms: startedAt - arrivedAt, ttft_ms: firstAt - arrivedAt, total_ms: at - arrivedAt });
    return;
  }
}

function finishOf(timings: Omit<FinishEvent['timings'], 'tokens_per_second'>): FinishEvent {
  return { type: 'finish', reason: 'length', usage: null, timings: { ...timings, tokens_per_second: null } };
}

class Lines {
  readonly #limits: LineLimits;
  /** Length of the line's indentation so far; null: the line has other characters, or is the first one. */
  #indent: number | null = null;

  constructor(limits: LineLimits) {
    this.#limits = limits;
  }

  /**
   * Returns the part of `text` up to the limit; undefined: no limit is reached in it. A line with too little
   * indentation is cut off, even an empty one, as in llama-server. `elapsedMs`: since the first text.
   */
  keptOf(text: string, elapsedMs: number): string | undefined {
    const { indent, predictMs } = this.#limits;
    for (let at = 0; at < text.length; at += 1) {
      const char = text[at];
      if (this.#indent !== null && (char === ' ' || char === '\t')) {
        this.#indent += 1;
        continue;
      }
      if (this.#indent !== null && this.#indent < indent) return text.slice(0, at);
      this.#indent = char === '\n' ? 0 : null;
      if (char === '\n' && predictMs > 0 && elapsedMs > predictMs) return text.slice(0, at + 1);
    }
    return undefined;
  }
}
