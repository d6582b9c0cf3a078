/** How long a model's engine rests after it has failed `failures` times in a row (from 1), in milliseconds. */
export function restartDelayMs(failures: number): number {
  // The first failure may be an accident: at once. Then 0.5 s, 1 s, 2 s ... one minute.
  return failures <= 1 ? 0 : Math.min(60_000, 250 * 2 ** (failures - 1));
}
