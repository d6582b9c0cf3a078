/** Budget of bytes for requests that are held at the same time. */
export class BodyBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** Returns false if too few bytes are left. */
  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#left += bytes;
  }
}

/** The bytes that one request has taken from a budget. */
export class BodyShare {
  readonly #budget: BodyBudget;
  #bytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** Changes the bytes taken to `bytes`. Returns false if too few are left. */
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
