/**
 * Current slowness of this machine. Deadlines of faults are seconds on an idle machine; a machine that takes three
 * times as long to run a command gets three times the deadlines.
 */
import { must } from './fault.ts';

/** Time of `svc version` on two quiet cores of 2024, rounded up. */
const REFERENCE_MS = 250;
/** Upper limit of the factor; a fault fails on a slower machine. */
export const HIGHEST_SLOWNESS = 12;

/** Factor from 1 to HIGHEST_SLOWNESS, measured with one run of `command`. */
export async function measureSlowness(command: () => Promise<{ readonly code: number | null }>): Promise<number> {
  const startedAt = performance.now();
  must((await command()).code === 0, 'svc version failed');
  const factor = (performance.now() - startedAt) / REFERENCE_MS;
  return Math.min(HIGHEST_SLOWNESS, Math.max(1, factor));
}
