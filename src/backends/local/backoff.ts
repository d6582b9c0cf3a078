/** Restart delay in ms after `failures` (from 1) consecutive failures of a model's engine. */
export function restartDelayMs(failures: number): number {
  // No delay after the first failure; then 0.5 s, 1 s, 2 s, ... up to one minute.
  return failures <= 1 ? 0 : Math.min(60_000, 250 * 2 ** (failures - 1));
}
