/** Progress of a load, in bytes of the model's file. */
import { Rate } from '../files/rate.ts';
import type { LoadEvent } from '../protocol/routes.ts';

type LoadProgress = Extract<LoadEvent, { type: 'progress' }>;

/** Returns a function from the fraction that is loaded to its event. */
export function loadProgress(totalBytes: number): (fraction: number) => LoadProgress {
  const rate = new Rate();
  return (fraction) => {
    const done = Math.round(Math.min(1, fraction) * totalBytes);
    rate.sample(done);
    return {
      type: 'progress',
      fraction,
      done_bytes: done,
      total_bytes: totalBytes,
      bytes_per_second: rate.bytesPerSecond,
    };
  };
}

/** Yields each change of `fraction`, until `isSettled` resolves with true. */
export async function* progressOfLoad(
  totalBytes: number,
  fraction: () => number,
  isSettled: () => Promise<boolean>,
): AsyncGenerator<LoadProgress, void, undefined> {
  const progress = loadProgress(totalBytes);
  for (let told = -1; !(await isSettled());) {
    const loaded = fraction();
    if (loaded !== told) yield progress(loaded);
    told = loaded;
  }
}
