/** Scheduling priority of an engine process. */
import { getPriority, setPriority } from 'node:os';

/** On Unix schedulers: about three times the CPU share of a process with default priority. */
const NICE = -5;

/**
 * Raises the priority. The threads of a step wait for each other, so on a busy machine decoding slows down far more
 * than its CPU share (figures: docs/architecture.md, decision 14). A priority set from outside is kept. Not on Windows,
 * where no privilege is needed and the desktop would stutter.
 *
 * Call it before other threads exist: threads inherit the priority of their creator.
 */
export function goFirst(): void {
  if (process.platform === 'win32' || getPriority() !== 0) return;
  try {
    setPriority(NICE);
  } catch {
    // Needs root, or a sufficient RLIMIT_NICE.
  }
}
