/** An engine's place among the programs of its machine. */
import { getPriority, setPriority } from 'node:os';

/** For the scheduler of a Unix: about three times the share of a program of ordinary priority. */
const NICE = -5;

/**
 * Somebody waits for what an engine computes. Threads of a step that wait for one another lose far more to a busy
 * machine than their share: beside two busy programs on two cores, decoding was three times as fast like this. A
 * priority that somebody else has chosen stays. On Windows everybody may do so, and a desktop would stutter.
 *
 * Call it before there are other threads: they have the priority of the one that makes them.
 */
export function goFirst(): void {
  if (process.platform === 'win32' || getPriority() !== 0) return;
  try {
    setPriority(NICE);
  } catch {
    // Only root may, and whom a limit lets.
  }
}
