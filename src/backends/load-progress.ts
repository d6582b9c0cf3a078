/** Progress of a load, in bytes of the model's file. */
import type { LoadEvent } from '../protocol/routes.ts';

type LoadProgress = Extract<LoadEvent, { type: 'progress' }>;

/** Returns a function from the fraction that is loaded to its event. The rate is the mean since the first call. */
export function loadProgress(totalBytes: number): (fraction: number) => LoadProgress {
  let first: { readonly at: number; readonly bytes: number } | undefined;
  return (fraction) => {
    const [at, bytes] = [performance.now(), Math.round(Math.min(1, fraction) * totalBytes)];
    first ??= { at, bytes };
    const seconds = (at - first.at) / 1000;
    const rate = seconds > 0 && bytes > first.bytes ? (bytes - first.bytes) / seconds : null;
    return { type: 'progress', fraction, done_bytes: bytes, total_bytes: totalBytes, bytes_per_second: rate };
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
