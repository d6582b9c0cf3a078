import type { Shares } from '../../net/shares.ts';

/** Bytes of each request that are not counted, so that a small request is read even if the budget is used up. */
export const FREE_BYTES: number = 64 * 1024;

/** The bytes that one request has taken from the budget of all requests that are held at the same time. */
export class BodyShare {
  readonly #budget: Shares;
  readonly #client: string;
  #bytes = 0;

  /** `client`: whose part of the budget it takes. */
  constructor(budget: Shares, client: string) {
    this.#budget = budget;
    this.#client = client;
  }

  /** Changes the bytes taken to `bytes`. Returns false if too few are left. */
  resize(bytes: number): boolean {
    const more = countedOf(bytes) - countedOf(this.#bytes);
    if (more > 0 && !this.#budget.take(this.#client, more, more)) return false;
    if (more < 0) this.#budget.giveBack(this.#client, -more);
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

function countedOf(bytes: number): number {
  return Math.max(0, bytes - FREE_BYTES);
}
