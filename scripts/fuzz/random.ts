/** Random numbers that a seed and an index give, the same everywhere. */
export class Random {
  #state: number;

  /** Executions next to each other have nothing in common. */
  constructor(seed: number, index: number) {
    this.#state = mix(mix(seed) ^ index) || 1;
  }

  /** 0 up to `end`, without it. */
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
