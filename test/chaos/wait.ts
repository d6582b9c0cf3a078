/** As test/support/wait.ts, with a longer timeout for busy machines; only a failing fault waits that long. */
import { waitFor as waitForTest, type WaitOptions } from '../support/wait.ts';

const TIMEOUT_MS = 90_000;

/** As `waitFor` of the tests. */
export async function waitFor<Value>(
  what: string,
  probe: () => Value | Promise<Value>,
  options: Omit<WaitOptions, 'timeoutMs'> = {},
): Promise<Exclude<Value, undefined | null | false>> {
  return await waitForTest(what, probe, { timeoutMs: TIMEOUT_MS, ...options });
}

/** Waits until no process has this id. */
export async function gone(pid: number): Promise<void> {
  await waitFor('the process to be gone', () => {
    try {
      process.kill(pid, 0);
      return false;
    } catch {
      return true;
    }
  });
}
