/** Transfer rate over a sliding window, and reports of progress. */
import type { BytesDone } from '../protocol/routes.ts';

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

const REPORT_MS = 250;

/** Returns a function that passes on the bytes done so far: at most four times a second, unless `isDue`. */
export function progressReport(
  total: number,
  onProgress: (progress: BytesDone) => void,
): (done: number, isDue?: boolean) => void {
  const rate = new Rate();
  let toldAt = 0;
  rate.sample(0);
  return (done, isDue = false) => {
    if (!isDue && performance.now() - toldAt < REPORT_MS) return;
    toldAt = performance.now();
    rate.sample(done);
    onProgress({ done_bytes: done, total_bytes: total, bytes_per_second: rate.bytesPerSecond });
  };
}
