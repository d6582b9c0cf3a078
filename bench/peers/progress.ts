/** Prints a run's progress to standard error. The remaining time is the expected time, scaled by the pace so far. */
export class Progress {
  readonly #total: number;
  readonly #expected: number;
  readonly #startedAt = performance.now();
  #done = 0;
  #expectedOfDone = 0;

  /** `expected`: expected seconds of each turn. */
  constructor(expected: readonly number[]) {
    this.#total = expected.length;
    this.#expected = expected.reduce((sum, seconds) => sum + seconds, 0);
    console.error(`${String(this.#total)} turns, about ${minutes(this.#expected)}`);
  }

  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  /** Records the end of a turn that was expected to take `expected` seconds. */
  done(expected: number, what: string): void {
    this.#done += 1;
    this.#expectedOfDone += expected;
    // The 60 s damp the pace of the first few turns.
    const pace = (this.seconds + 60) / (this.#expectedOfDone + 60);
    const left = (this.#expected - this.#expectedOfDone) * pace;
    console.error(`[${String(this.#done)} of ${String(this.#total)}, ${minutes(left)} left] ${what}`);
  }
}

const minutes = (seconds: number): string => `${(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} min`;
