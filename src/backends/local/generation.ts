/**
 * One generation or embedding request on the daemon's side. Buffers what the engine pushes until the consumer pulls.
 *
 * The buffer is one string, so a slow consumer gets longer pieces, not a longer queue. Back-pressure: above
 * PAUSE_CHARACTERS the engine pauses this generation; the next pull takes everything and resumes it. A failure
 * discards buffered text, because text that was not sent must not prevent a retry. Vectors are bounded by their
 * request and pause nothing.
 *
 * An engine that ignores a pause or sends more vectors than requested is killed: it no longer runs the code that we
 * loaded into it.
 */
import type { NativeFinish } from '../../engine/addon.ts';
import type { StepOutput, ToEngine } from '../../engine/messages.ts';
import { SvcError, type ErrorRecord } from '../../protocol/errors.ts';
import type { TextEvent, TokenLogprobs } from '../../protocol/generate.ts';
import { toLogprobs } from './request.ts';

/** About a thousand tokens: enough for any consumer that keeps up. */
const PAUSE_CHARACTERS = 4 * 1024;
/** Each may have twenty alternatives. */
const PAUSE_LOGPROBS = 256;
/** Far more than an engine can have in flight when it is paused. */
const MOST_CHARACTERS = 4 * 1024 * 1024;
const MOST_LOGPROBS = 64 * 1024;

export type GenerationEvent =
  /** The engine has admitted the request. First, and once. */
  | { readonly type: 'accepted' }
  | TextEvent
  /** Vectors, concatenated. */
  | { readonly type: 'vectors'; readonly vectors: Float32Array }
  /** `at`: performance.now() when it arrived. */
  | { readonly type: 'finish'; readonly finish: NativeFinish; readonly at: number };

export interface GenerationOwner {
  send(message: ToEngine): void;
  /** From now on the engine's outputs for this id are ignored. */
  release(id: number): void;
  /** Reports a protocol violation of the engine; `what` continues "the engine of X …". */
  offend(what: string): void;
}

export class Generation {
  readonly id: number;
  readonly #owner: GenerationOwner;
  #accepted = false;
  #text = '';
  #vectors: Float32Array[] = [];
  /** Numbers still to be received. */
  #numbersLeft: number;
  #logprobs: TokenLogprobs[] = [];
  #paused = false;
  #end: { readonly finish: NativeFinish; readonly at: number } | { readonly error: SvcError } | undefined;
  #wake: () => void = () => undefined;

  /** `numbers`: total length of all vectors requested. */
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

  /** Call once. Ends after `finish`, or throws. Returning early or aborting cancels the request in the engine. */
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
