/** Tells those who watch the daemon's health that something in its record is new. */
export class HealthFeed {
  readonly #listeners = new Set<() => void>();
  #sequence = 0;

  /** How often there was news. */
  get sequence(): number {
    return this.#sequence;
  }

  changed(): void {
    this.#sequence += 1;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Returns what ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
