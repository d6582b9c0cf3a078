/** Notifies watchers of the daemon's health when something in its record has changed. */
import { FIGURES_MS } from '../protocol/records.ts';

export class HealthFeed {
  readonly #listeners = new Set<() => void>();
  readonly #now: () => number;
  #sequence = 0;
  #toldAt: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#toldAt = now();
  }

  /** Number of notifications so far. */
  get sequence(): number {
    return this.#sequence;
  }

  changed(): void {
    this.#sequence += 1;
    this.#toldAt = this.#now();
    for (const listener of [...this.#listeners]) listener();
  }

  /** Notifies of new figures, but only if nothing was sent for FIGURES_MS. */
  sampled(): void {
    if (this.#now() - this.#toldAt >= FIGURES_MS) this.changed();
  }

  /** Returns a function that ends the subscription. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
