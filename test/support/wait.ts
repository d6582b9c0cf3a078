/** Polling with a deadline: tests wait for a condition, never for a fixed time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Long enough for a heavily overloaded machine; only a failing test waits this long. */
export const PATIENCE_MS = 240_000;

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * Polls `probe` and returns its first value that is not undefined, null or false. `what` completes the sentence
 * "timed out waiting for …"; the error of the last probe becomes the cause.
 */
export async function waitFor<Value>(
  what: string,
  probe: () => Value | Promise<Value>,
  { timeoutMs = PATIENCE_MS, intervalMs = 20 }: WaitOptions = {},
): Promise<Exclude<Value, undefined | null | false>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false)
        return value as Exclude<Value, undefined | null | false>;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) {
      throw new Error(`timed out after ${String(timeoutMs)} ms waiting for ${what}`, { cause });
    }
    await sleep(intervalMs);
  }
}
