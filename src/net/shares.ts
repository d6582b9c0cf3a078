/** Counts what each client holds of something scarce; one of them may hold three quarters of it. */

/** Places that one share may hold of `most`. */
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

  /** Takes a place for `share`, unless all places, or all that one share may hold, are taken. */
  take(share: string): boolean {
    const held = this.#held.get(share) ?? 0;
    if (this.#total >= this.#most || held >= this.#mostOfOne) return false;
    this.#held.set(share, held + 1);
    this.#total += 1;
    return true;
  }

  /** REQUIRES: `take(share)` was true, once for each call. */
  giveBack(share: string): void {
    const left = (this.#held.get(share) ?? 1) - 1;
    if (left > 0) this.#held.set(share, left);
    else this.#held.delete(share);
    this.#total -= 1;
  }
}

/**
 * Counts bytes that clients hold. One share may hold three quarters of them; what it takes last may go beyond that, so
 * that nothing is too large for a client that holds little.
 */
export class ByteShares {
  readonly #most: number;
  readonly #mostOfOne: number;
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(most: number) {
    this.#most = most;
    this.#mostOfOne = mostOfOneShare(most);
  }

  /** Counts `bytes` for `share`, unless it, or all together, hold too many already. */
  take(share: string, bytes: number): boolean {
    const held = this.#held.get(share) ?? 0;
    if (this.#total >= this.#most || held >= this.#mostOfOne) return false;
    this.#held.set(share, held + bytes);
    this.#total += bytes;
    return true;
  }

  /** REQUIRES: as many were taken for `share`. */
  giveBack(share: string, bytes: number): void {
    const left = (this.#held.get(share) ?? bytes) - bytes;
    if (left > 0) this.#held.set(share, left);
    else this.#held.delete(share);
    this.#total -= bytes;
  }
}
