/**
 * The requests of a dead engine that are tried again, one after the other.
 *
 * When an engine dies, nobody knows which of the requests in it was the reason. Those whose answers had not
 * begun are tried once more: each alone, until its answer begins, while whoever comes meanwhile waits. So a prompt
 * that ends its engine ends other answers once, and not twice. A request that takes long to begin its
 * answer is cleared after a time, so that others need not wait for all of a long prompt.
 */
import { abortable } from '../abortable.ts';
import { deferred, type Deferred } from './deferred.ts';

/** What ends an engine does so while the prompt is prepared, or in the first steps. */
const CLEARED_AFTER_MS = 10_000;

export class Suspects {
  readonly #clearedAfterMs: number;
  /** The first is the one that is being tried. */
  readonly #queue: Deferred[] = [];

  constructor(clearedAfterMs = CLEARED_AFTER_MS) {
    this.#clearedAfterMs = clearedAfterMs;
  }

  /**
   * Resolves when it is this request's turn. It must call the result when its answer begins or it ends; a second call
   * does nothing. Throws `signal.reason`.
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    const cleared = deferred();
    const before = this.#queue.at(-1);
    this.#queue.push(cleared);
    const clear = (): void => {
      clearTimeout(timer);
      const at = this.#queue.indexOf(cleared);
      if (at >= 0) this.#queue.splice(at, 1);
      cleared.resolve();
    };
    let timer: NodeJS.Timeout | undefined;
    try {
      if (before !== undefined) await abortable(before.promise, signal);
    } catch (error) {
      // Whoever comes after this one waits for the one before it.
      void before?.promise.then(clear);
      throw error;
    }
    timer = setTimeout(clear, this.#clearedAfterMs).unref();
    return clear;
  }

  /** Resolves when none is left; with `false` if there was none. Throws `signal.reason`. */
  async none(signal: AbortSignal): Promise<boolean> {
    const waited = this.#queue.length > 0;
    for (let last = this.#queue.at(-1); last !== undefined; last = this.#queue.at(-1)) {
      await abortable(last.promise, signal);
    }
    return waited;
  }
}
