/** Asks `/livez` all the time, to tell how long the daemon ever takes to say that it lives. */
import { setTimeout as sleep } from 'node:timers/promises';

const EVERY_MS = 50;

export class LiveWatch {
  readonly #times: number[] = [];
  readonly #ending = new AbortController();
  readonly #ended: Promise<void>;

  constructor(url: string) {
    this.#ended = this.#watch(`${url}/livez`);
  }

  /** The time that all but one in a hundred took at most, in milliseconds. */
  async stop(): Promise<{ readonly p99: number; readonly count: number }> {
    this.#ending.abort();
    await this.#ended;
    const sorted = this.#times.sort((a, b) => a - b);
    return { p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0, count: sorted.length };
  }

  async #watch(url: string): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const from = performance.now();
      await (await fetch(url)).text();
      this.#times.push(performance.now() - from);
      await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
