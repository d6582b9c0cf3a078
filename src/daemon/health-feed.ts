/** Tells those who watch the daemon's health that something in its record is new. */
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

  /** How often there was news. */
  get sequence(): number {
    return this.#sequence;
  }

  changed(): void {
    this.#sequence += 1;
    this.#toldAt = this.#now();
    for (const listener of [...this.#listeners]) listener();
  }

  /** Figures alone are news only when there was none for a while. */
  sampled(): void {
    if (this.#now() - this.#toldAt >= FIGURES_MS) this.changed();
  }

  /** Returns what ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
