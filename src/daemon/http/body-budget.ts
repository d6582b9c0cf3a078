/** Budget of bytes for requests that are held at the same time. */
export interface BodyBudget {
  left: number;
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
    if (more > this.#budget.left) return false;
    this.#budget.left -= more;
    this.#bytes = bytes;
    return true;
  }

  /** Takes more bytes. Returns false if too few are left. */
  add(bytes: number): boolean {
    return this.resize(this.#bytes + bytes);
  }

  /** Idempotent. */
  giveBack(): void {
    this.resize(0);
  }
}
