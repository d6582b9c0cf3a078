/** Probes the members of a cluster periodically while the cluster is in use. */
import type { Member } from './member.ts';

const INTERVAL_MS = 400;
/** Jitter in both directions, so that several daemons do not probe at the same time. */
const JITTER_MS = 100;
const IN_USE_MS = 30_000;

export class Watch {
  readonly #members: readonly Member[];
  readonly #ending = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #usedAt = 0;

  constructor(members: readonly Member[]) {
    this.#members = members;
  }

  /** Call on use: members are probed for the next IN_USE_MS. */
  wake(): void {
    this.#usedAt = performance.now();
    if (this.#timer === null && !this.#ending.signal.aborted) this.#next();
  }

  stop(): void {
    this.#ending.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #next(): void {
    const isIdle = performance.now() - this.#usedAt > IN_USE_MS && this.#members.every((member) => member.isIdle);
    if (isIdle || this.#ending.signal.aborted) {
      this.#timer = null;
      return;
    }
    const wait = INTERVAL_MS + (Math.random() - 0.5) * 2 * JITTER_MS;
    this.#timer = setTimeout(() => {
      void Promise.all(this.#members.map((member) => member.look(this.#ending.signal))).then(() => this.#next());
    }, wait).unref();
  }
}
