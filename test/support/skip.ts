/** Tests that need what a machine may not have. */
import type { Callback, Test } from 'uvu';

/** A test of `test`, or, when there is a reason not to run it, one that is counted as skipped and says so. */
export function unless<Context>(
  reason: string | undefined,
  test: Test<Context>,
): (name: string, run: Callback<Context>) => void {
  return (name, run) => {
    if (reason === undefined) {
      test(name, run);
      return;
    }
    process.stdout.write(`skipped: ${name}: ${reason}\n`);
    test.skip(name, run);
  };
}
