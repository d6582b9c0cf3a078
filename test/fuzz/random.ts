/** Random numbers from a seed and an index, the same on every machine. */
export class Random {
  #state: number;

  /** Neighbouring indices give unrelated sequences. */
  constructor(seed: number, index: number) {
    this.#state = mix(mix(seed) ^ index) || 1;
  }

  /** Returns an integer from 0 to `end` - 1. */
  below(end: number): number {
    // xorshift32
    let state = this.#state;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.#state = state;
    return (state >>> 0) % end;
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }
}

/** The finalizer of MurmurHash3. */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return hash ^ (hash >>> 16);
}
