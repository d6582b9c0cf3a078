/** Polls `/livez` every 50 ms and measures the daemon's response time. */
import { setTimeout as sleep } from 'node:timers/promises';

const EVERY_MS = 50;

export class LiveWatch {
  readonly #times: number[] = [];
  readonly #ending = new AbortController();
  readonly #ended: Promise<void>;
  #error: unknown = null;

  constructor(url: string) {
    this.#ended = this.#watch(`${url}/livez`).catch((error: unknown) => void (this.#error = error));
  }

  /** Stops polling; resolves to the 99th percentile in milliseconds. Rejects if any request failed. */
  async stop(): Promise<number> {
    this.#ending.abort();
    await this.#ended;
    if (this.#error !== null) throw this.#error as Error;
    const sorted = this.#times.sort((a, b) => a - b);
    return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
  }

  async #watch(url: string): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const from = performance.now();
      const response = await fetch(url);
      await response.text();
      if (!response.ok) throw new Error(`/livez returned status ${String(response.status)}`);
      this.#times.push(performance.now() - from);
      await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
