/** The answer to a generation, for those who read it as it arrives and for those who wait for the whole. */
import { Collector } from '../protocol/collect.ts';
import { SvcError } from '../protocol/errors.ts';
import type { AnswerEvent, GenerateResult } from '../protocol/generate.ts';
import { given } from '../protocol/given.ts';

/** The request is sent when reading begins. An answer can be read once. */
export class Answer implements AsyncIterable<AnswerEvent> {
  readonly #collector = new Collector();
  readonly #events: AsyncGenerator<AnswerEvent, void, undefined>;
  /** undefined: the answer is complete. */
  #failure: SvcError | undefined = new SvcError('CANCELLED', 'the answer was not read to its end');

  constructor(events: AsyncIterable<AnswerEvent>) {
    this.#events = this.#read(events);
  }

  /**
   * Yields the events; the last one is `finish`. Throws the SvcError that ended the answer. Leaving the loop early
   * stops the generation in the daemon.
   */
  [Symbol.asyncIterator](): AsyncGenerator<AnswerEvent, void, undefined> {
    return this.#events;
  }

  /**
   * Resolves with the whole answer, instead of a loop or after it. Rejects with the SvcError that ended the answer;
   * CANCELLED if a loop was left early.
   */
  async result(): Promise<GenerateResult> {
    for await (const _ of this.#events);
    if (this.#failure !== undefined) throw this.#failure;
    const { text, reasoning, toolCalls, logprobs, finish, facts } = this.#collector;
    const { model, provider, route, usage, timings, trace_id } = facts;
    return {
      text,
      ...given({
        reasoning: reasoning === '' ? undefined : reasoning,
        tool_calls: toolCalls.length === 0 ? undefined : toolCalls,
        logprobs: logprobs.length === 0 ? undefined : logprobs,
      }),
      model,
      provider,
      route,
      finish_reason: finish.reason,
      usage,
      timings,
      ...given({ repetition: finish.repetition }),
      trace_id,
    };
  }

  async *#read(events: AsyncIterable<AnswerEvent>): AsyncGenerator<AnswerEvent, void, undefined> {
    try {
      for await (const event of events) {
        this.#collector.add(event);
        yield event;
      }
    } catch (error) {
      this.#failure = SvcError.from(error);
      throw this.#failure;
    }
    this.#failure = undefined;
  }
}
