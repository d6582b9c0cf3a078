/** How many may do something at once; the others wait, first come, first served. */
import { SvcError } from '../../protocol/errors.ts';

/** Beyond that nobody's patience lasts, and memory should not either. */
const WAITING_LIMIT = 1024;

export class Slots {
  readonly #limit: number;
  readonly #waiting = new Set<() => void>();
  #taken = 0;

  /** null: no bound. */
  constructor(limit: number | null) {
    this.#limit = limit ?? Infinity;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves with what gives the slot back, to be called once. Throws `signal.reason`, or BUSY when too many wait. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#taken < this.#limit) this.#taken += 1;
    else if (this.#waiting.size < WAITING_LIMIT) await this.#turn(signal);
    else throw new SvcError('BUSY', `${String(WAITING_LIMIT)} requests wait already`, { retryAfterSeconds: 1 });
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

  /** The slot goes to the next in line and never becomes free in between. */
  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
