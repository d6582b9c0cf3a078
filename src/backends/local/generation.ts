/**
 * One generation, or one request for embeddings, on the daemon's side: what the engine pushes waits here until the consumer pulls.
 *
 * The buffer is one string, so that a consumer that lags gets longer pieces, not a longer queue.
 * Above PAUSE_CHARACTERS the engine is told to leave this generation out of its steps; the next pull
 * takes everything and resumes it. A failure overtakes the text that nobody has seen yet: text that
 * has not been passed on must not prevent the request from being tried again. Vectors are never more
 * than their request bounds, and pause nothing.
 *
 * An engine that goes on all the same, or sends vectors that nobody asked for, is ended: it does not do what the
 * code that was loaded into it does.
 */
import type { NativeOutput } from '../../engine/addon.ts';
import type { StepOutput, ToEngine } from '../../engine/frames.ts';
import { SvcError, type ErrorRecord } from '../../protocol/errors.ts';
import type { TextEvent, TokenLogprobs } from '../../protocol/generate.ts';
import { toLogprobs } from './request.ts';

/** About a thousand tokens: ahead enough of any consumer that keeps up. */
const PAUSE_CHARACTERS = 4 * 1024;
/** Each may bring twenty alternatives. */
const PAUSE_LOGPROBS = 256;
/** What was on its way when the engine was paused is far less. */
const MOST_CHARACTERS = 4 * 1024 * 1024;
const MOST_LOGPROBS = 64 * 1024;

export type NativeFinish = NonNullable<NativeOutput['finish']>;

export type GenerationEvent =
  /** The engine has taken it up. First, and once. */
  | { readonly type: 'accepted' }
  | TextEvent
  /** One behind the other. */
  | { readonly type: 'vectors'; readonly vectors: Float32Array }
  /** `at`: performance.now() when it arrived. */
  | { readonly type: 'finish'; readonly finish: NativeFinish; readonly at: number };

export interface GenerationOwner {
  send(message: ToEngine): void;
  /** The engine's outputs for this id are nobody's any more. */
  release(id: number): void;
  /** The engine sends what it must not; `what` ends a sentence about it. */
  offend(what: string): void;
}

export class Generation {
  readonly id: number;
  readonly #owner: GenerationOwner;
  #accepted = false;
  #text = '';
  #vectors: Float32Array[] = [];
  /** Numbers that may still come. */
  #numbersLeft: number;
  #logprobs: TokenLogprobs[] = [];
  #paused = false;
  #end: { readonly finish: NativeFinish; readonly at: number } | { readonly error: SvcError } | undefined;
  #wake: () => void = () => undefined;

  /** `numbers`: of all vectors that were asked for. */
  constructor(id: number, owner: GenerationOwner, numbers = 0) {
    this.id = id;
    this.#numbersLeft = numbers;
    this.#owner = owner;
  }

  accept(): void {
    this.#accepted = true;
    this.#wake();
  }

  pushVectors(vectors: Float32Array): void {
    this.#numbersLeft -= vectors.length;
    if (this.#numbersLeft < 0) {
      this.#owner.offend('sent vectors that nobody asked for');
      return;
    }
    this.#accepted = true;
    this.#vectors.push(vectors);
    this.#wake();
  }

  push(output: StepOutput): void {
    if (output.error !== undefined) {
      this.fail(SvcError.fromRecord(output.error as ErrorRecord));
      return;
    }
    if (this.#end !== undefined) return;
    const logprobs = this.#logprobs.length + (output.logprobs?.length ?? 0);
    if (this.#text.length + output.text.length > MOST_CHARACTERS || logprobs > MOST_LOGPROBS) {
      this.#owner.offend('went on with an answer that it was told to pause');
      return;
    }
    this.#accepted = true;
    this.#text += output.text;
    if (output.logprobs !== undefined) this.#logprobs.push(...toLogprobs(output.logprobs));
    if (output.finish !== undefined) this.#end = { finish: output.finish, at: performance.now() };
    else if (!this.#paused && (this.#text.length > PAUSE_CHARACTERS || this.#logprobs.length > PAUSE_LOGPROBS)) {
      this.#paused = true;
      this.#owner.send({ type: 'pause', id: this.id });
    }
    this.#wake();
  }

  fail(error: SvcError): void {
    this.#end ??= { error };
    this.#wake();
  }

  /** Once only. Ends after `finish`, or throws. Leaving it early, or aborting, cancels it in the engine. */
  async *events(signal: AbortSignal): AsyncGenerator<GenerationEvent, void, undefined> {
    let announced = false;
    const onAbort = (): void => this.#wake();
    signal.addEventListener('abort', onAbort);
    try {
      for (;;) {
        signal.throwIfAborted();
        if (this.#end !== undefined && 'error' in this.#end) throw this.#end.error;
        if (this.#accepted && !announced) {
          announced = true;
          yield { type: 'accepted' };
        } else if (this.#vectors.length > 0) {
          for (const vectors of this.#vectors.splice(0)) yield { type: 'vectors', vectors };
        } else if (this.#text !== '') {
          yield this.#take();
        } else if (this.#end !== undefined) {
          yield { type: 'finish', ...this.#end };
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      if (this.#end === undefined) this.#owner.send({ type: 'cancel', id: this.id });
      this.#owner.release(this.id);
    }
  }

  #take(): TextEvent {
    const event: TextEvent = {
      type: 'text',
      text: this.#text,
      ...(this.#logprobs.length === 0 ? {} : { logprobs: this.#logprobs }),
    };
    this.#text = '';
    this.#logprobs = [];
    if (this.#paused) {
      this.#paused = false;
      this.#owner.send({ type: 'resume', id: this.id });
    }
    return event;
  }
}
