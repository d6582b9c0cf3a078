/** Skips tests that need something which this machine lacks. */
import type { Callback, Test } from 'uvu';

/** Returns `test`, or, if there is a `reason`, a function that registers a skipped test and prints the reason. */
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
