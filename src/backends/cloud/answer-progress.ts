/** State of one answer from a provider: converts its events to ours and measures its timings. */
import type { FinishEvent, FinishReason, GenerateEvent, StartEvent, Usage } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { WholeAnswer, WireEvent } from './wire.ts';

export class AnswerProgress {
  readonly #provider: string;
  readonly #arrivedAt: number;
  readonly #startedAt: number;
  #model: string;
  #isAnnounced = false;
  #firstAt: number | null = null;
  #lastAt = 0;
  #usage: Usage | null = null;
  #reason: FinishReason | null = null;
  #stopString: string | undefined;

  /** `arrivedAt`, `startedAt`: performance.now() when the request arrived and when it got its slot. */
  constructor(provider: string, model: string, { arrivedAt, startedAt }: { arrivedAt: number; startedAt: number }) {
    this.#provider = provider;
    this.#model = model;
    this.#arrivedAt = arrivedAt;
    this.#startedAt = startedAt;
  }

  /** True once the provider has sent its finish reason; only usage may follow. */
  get isFinished(): boolean {
    return this.#reason !== null;
  }

  /**
   * Events for the caller. `start` is delayed until the first content: if a provider begins with an error, a fallback
   * is still possible.
   */
  *take(events: readonly WireEvent[]): Generator<GenerateEvent, void, undefined> {
    for (const event of events) {
      switch (event.type) {
        case 'started':
          this.#named(event.model);
          break;
        case 'usage':
          this.#usage = event.usage;
          break;
        case 'finish':
          this.#reason = event.reason;
          this.#stopString = event.stop_string;
          break;
        default:
          if (event.type !== 'tool_call' && event.text === '') break;
          this.#lastAt = performance.now();
          this.#firstAt ??= this.#lastAt;
          yield* this.#announce();
          yield event;
      }
    }
  }

  /** Call after the last `take`. */
  *end(): Generator<GenerateEvent, void, undefined> {
    yield* this.#announce();
    yield this.#finish(this.#reason ?? 'stop');
  }

  /** Events of an answer that has come as a whole. */
  *whole<Content>({
    model,
    content,
    usage,
  }: WholeAnswer<Content>): Generator<StartEvent | Content | FinishEvent, void, undefined> {
    this.#named(model ?? '');
    this.#usage = usage;
    this.#firstAt = this.#lastAt = performance.now();
    yield* this.#announce();
    yield content;
    yield this.#finish('stop');
  }

  #named(model: string): void {
    if (model !== '' && model.length <= LIMITS.modelNameLength) this.#model = model;
  }

  *#announce(): Generator<StartEvent, void, undefined> {
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    yield { type: 'start', model: this.#model, provider: this.#provider };
  }

  #finish(reason: FinishReason): FinishEvent {
    const sinceArrival = (at: number): number => Math.round((at - this.#arrivedAt) * 100) / 100;
    const firstAt = this.#firstAt;
    const seconds = firstAt === null ? 0 : (this.#lastAt - firstAt) / 1000;
    const tokens = (this.#usage?.output_tokens ?? 0) - 1;
    return {
      type: 'finish',
      reason,
      ...given({ stop_string: this.#stopString }),
      usage: this.#usage,
      timings: {
        queue_ms: sinceArrival(this.#startedAt),
        ttft_ms: firstAt === null ? null : sinceArrival(firstAt),
        total_ms: sinceArrival(performance.now()),
        tokens_per_second: tokens < 1 || seconds <= 0 ? null : Math.round((tokens / seconds) * 100) / 100,
      },
    };
  }
}
