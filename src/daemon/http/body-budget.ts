/** Bytes of requests that may be held at once. */
export class BodyBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** False: they are not there. */
  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#left += bytes;
  }
}

/** What one request has taken of a budget. */
export class BodyShare {
  readonly #budget: BodyBudget;
  #bytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** Takes what `bytes` are more than was taken, or gives back what they are less. False: there is no room. */
  resize(bytes: number): boolean {
    const more = bytes - this.#bytes;
    if (more > 0 && !this.#budget.take(more)) return false;
    if (more < 0) this.#budget.give(-more);
    this.#bytes = bytes;
    return true;
  }

  /** Idempotent. */
  giveBack(): void {
    this.resize(0);
  }
}
