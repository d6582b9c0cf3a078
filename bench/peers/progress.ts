/** How far a run is, told on standard error: what is left is what was expected, corrected by what the rest has taken. */
export class Progress {
  readonly #total: number;
  readonly #expected: number;
  readonly #startedAt = performance.now();
  #done = 0;
  #expectedOfDone = 0;

  /** `expected`: the seconds of each turn, all of them. */
  constructor(expected: readonly number[]) {
    this.#total = expected.length;
    this.#expected = expected.reduce((sum, seconds) => sum + seconds, 0);
    console.error(`${String(this.#total)} turns, about ${minutes(this.#expected)}`);
  }

  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  /** A turn that was to take `expected` seconds is over. */
  done(expected: number, what: string): void {
    this.#done += 1;
    this.#expectedOfDone += expected;
    // Early on, the pace of few turns tells little.
    const pace = (this.seconds + 60) / (this.#expectedOfDone + 60);
    const left = (this.#expected - this.#expectedOfDone) * pace;
    console.error(`[${String(this.#done)} of ${String(this.#total)}, ${minutes(left)} left] ${what}`);
  }
}

const minutes = (seconds: number): string => `${(seconds / 60).toFixed(seconds < 600 ? 1 : 0)} min`;
