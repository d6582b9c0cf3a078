/**
 * Retries the requests of a dead engine one after the other.
 *
 * When an engine dies, any of its requests may be the cause. Those whose answers had not begun are retried once, each
 * alone until its answer begins; new requests wait meanwhile. So a prompt that crashes the engine hurts other
 * answers once, not twice. A request is cleared after a time limit, so that others need not wait for a long prompt.
 */
import { abortable } from '../abortable.ts';
import { deferred, type Deferred } from './deferred.ts';

/** A prompt that crashes an engine does so while it is prepared or in the first steps. */
const CLEARED_AFTER_MS = 10_000;

/** The time for which a request is retried alone. */
export interface Turn {
  readonly isOver: boolean;
  /** Call when the answer begins or the request ends. Idempotent. */
  end(): void;
}

export class Suspects {
  /** The first is the one being retried. */
  readonly #queue: Deferred[] = [];

  /** Resolves when it is this request's turn. Throws `signal.reason`. */
  async turn(signal: AbortSignal): Promise<Turn> {
    const cleared = deferred();
    const before = this.#queue.at(-1);
    this.#queue.push(cleared);
    const clear = (): void => {
      const at = this.#queue.indexOf(cleared);
      if (at >= 0) this.#queue.splice(at, 1);
      cleared.resolve();
    };
    try {
      if (before !== undefined) await abortable(before.promise, signal);
    } catch (error) {
      // The next one in the queue then waits for the one before this.
      void before?.promise.then(clear);
      throw error;
    }
    const turn = {
      isOver: false,
      end: () => {
        clearTimeout(timer);
        turn.isOver = true;
        clear();
      },
    };
    const timer = setTimeout(turn.end, CLEARED_AFTER_MS).unref();
    return turn;
  }

  /** Resolves when no suspect is left; with false if there was none. Throws `signal.reason`. */
  async none(signal: AbortSignal): Promise<boolean> {
    const waited = this.#queue.length > 0;
    for (let last = this.#queue.at(-1); last !== undefined; last = this.#queue.at(-1)) {
      await abortable(last.promise, signal);
    }
    return waited;
  }
}
