/** Polling with a deadline: a test waits for a condition, never for a time. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Long enough for a machine that is many times busier than it should be; only a failure waits so long. */
export const PATIENCE_MS = 90_000;

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
}

/**
 * The first value of `probe` that is neither undefined, null nor false. `what` completes the sentence
 * "timed out waiting for …"; what the probe threw last is the error's cause.
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
