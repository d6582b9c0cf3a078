/** Collects the names of failed tests for the end of a run. */

/** A failed test in uvu's output: `   FAIL  suite  "name"`; the suite may be absent. Messages are indented more. */
const FAILED_TEST = /^ {3}FAIL {2}(?:(\S.*?) {2})?"(.*)"$/gm;
// eslint-disable-next-line no-control-regex -- colours are control characters
const COLOURS = /\u001b\[[0-9;]*m/g;

/** Names of the failed tests in the output of a test file, in order: `suite: name`, or `name` alone. */
export function failedTests(output) {
  return [...output.replace(COLOURS, '').matchAll(FAILED_TEST)].map(([, suite, name]) =>
    suite === undefined ? name : `${suite}: ${name}`,
  );
}

/** Names of the failed tests in the summary of ctest, with the kind of failure: `loop_test (Timeout)`. */
export function failedNativeTests(output) {
  const [, list = ''] = /The following tests FAILED:\n((?:\s+\d+ - .*\n)+)/.exec(output) ?? [];
  return [...list.matchAll(/^\s+\d+ - (\S+) \((.*?)\)/gm)].map(([, name, how]) =>
    how === 'Failed' ? name : `${name} (${how})`,
  );
}

/**
 * Lines that name the failed files and the failures in each; empty if nothing failed.
 * `results`: `{ file, failed, failures }`; `failures` are names and sentences.
 */
export function describeFailures(results) {
  const failed = results.filter((result) => result.failed > 0).sort((a, b) => (a.file < b.file ? -1 : 1));
  if (failed.length === 0) return [];
  return [
    'failed:',
    ...failed.flatMap(({ file, failures }) => [`  ${file}`, ...failures.map((each) => `    ${each}`)]),
  ];
}
