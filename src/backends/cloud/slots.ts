/**
 * A semaphore with a bounded FIFO queue.
 *
 * Not cockatiel's `bulkhead`: it runs a function and frees the place when the function's promise settles. A slot
 * outlives the call that takes it, because it is held until the answer's stream ends. An aborted request in the
 * bulkhead's queue would also learn of it only when its turn comes.
 */
import { SvcError } from '../../protocol/errors.ts';

/** Maximum queue length; bounds waiting time and memory. */
const WAITING_LIMIT = 1024;

export class Slots {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
  #taken = 0;

  /** null: no limit. */
  constructor(limit: number | null) {
    this.#limit = limit ?? Infinity;
  }

  /** Resolves with a function that releases the slot. Throws `signal.reason`, or BUSY if the queue is full. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#taken < this.#limit) this.#taken += 1;
    else if (this.#waiting.size < WAITING_LIMIT) await this.#turn(signal);
    else
      throw new SvcError('BUSY', `the queue is full: ${String(WAITING_LIMIT)} requests wait for a slot`, {
        retryAfterSeconds: 1,
      });
    return () => this.#release();
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const take = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.delete(take);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(take);
    });
  }

  /** Passes the slot directly to the next in the queue, if any. */
  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
