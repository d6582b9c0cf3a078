/** Transfer rate over a sliding window. */
const WINDOW_MS = 5000;

export class Rate {
  readonly #samples: { readonly at: number; readonly bytes: number }[] = [];

  /** @param bytes total so far */
  sample(bytes: number): void {
    const at = performance.now();
    this.#samples.push({ at, bytes });
    while ((this.#samples[1]?.at ?? Infinity) < at - WINDOW_MS) this.#samples.shift();
  }

  /** Bytes per second; null: too few samples. */
  get bytesPerSecond(): number | null {
    const [first] = this.#samples;
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.at - first.at < 1) return null;
    return Math.max(0, ((last.bytes - first.bytes) / (last.at - first.at)) * 1000);
  }
}
