/**
 * How slow this machine is just now. Deadlines of faults are seconds of a machine that does nothing else;
 * one that takes three times as long to run a command has three times as long for them.
 */
import { must } from './fault.ts';

/** Time of `svc version` on two quiet cores of 2024, rounded up. */
const REFERENCE_MS = 250;
/** A machine that is slower than that fails. */
export const HIGHEST_SLOWNESS = 12;

/** Factor from 1 to HIGHEST_SLOWNESS, measured with one run of `command`. */
export async function measureSlowness(command: () => Promise<{ readonly code: number | null }>): Promise<number> {
  const startedAt = performance.now();
  must((await command()).code === 0, 'svc version failed');
  const factor = (performance.now() - startedAt) / REFERENCE_MS;
  return Math.min(HIGHEST_SLOWNESS, Math.max(1, factor));
}
