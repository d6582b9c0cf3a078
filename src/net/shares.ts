/** Counts what each client holds of something scarce: connections, or bytes. One may hold three quarters of it. */

/** Amount that one share may hold of `most`. */
export function mostOfOneShare(most: number): number {
  return Math.ceil((most * 3) / 4);
}

export class Shares {
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(most: number) {
    this.#most = most;
    this.#mostOfOne = mostOfOneShare(most);
  }

  /**
   * Takes an amount for `share`, unless less than `room` is left to it, or to all together. With less room than amount,
   * the amount may exceed the maximum, so that nothing is too large for a client that holds little.
   */
  take(share: string, amount = 1, room = 1): boolean {
    const held = this.#held.get(share) ?? 0;
    if (this.#total + room > this.#most || held + room > this.#mostOfOne) return false;
    this.#held.set(share, held + amount);
    this.#total += amount;
    return true;
  }

  /** REQUIRES: `share` holds as much. */
  giveBack(share: string, amount = 1): void {
    const left = (this.#held.get(share) ?? amount) - amount;
    if (left > 0) this.#held.set(share, left);
    else this.#held.delete(share);
    this.#total -= amount;
  }
}
