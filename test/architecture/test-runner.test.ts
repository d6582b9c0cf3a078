/** The test runner: how `npm test` reports failing files. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { describeFailures, failedNativeTests } from '../../scripts/steps/failures.js';
import { runTestFile } from '../../scripts/steps/test-file.js';

const test = suite<{ dir: string }>('test runner');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-runner-'));
});
test.after.each(({ dir }) => rm(dir, { recursive: true, force: true }));

const UVU = [
  `import { suite, test } from ${JSON.stringify(import.meta.resolve('uvu'))};`,
  `import * as assert from ${JSON.stringify(import.meta.resolve('uvu/assert'))};`,
].join('\n');

const FAILS = `${UVU}
const named = suite('a suite of some words');
named('is right', () => assert.is(1, 1));
named('says "what" is wrong', () => assert.is(1, 2));
named('throws', () => { throw new Error('FAIL "not a name"'); });
named.run();
test('without a suite', () => assert.unreachable());
test.run();
const hooked = suite('hooked');
hooked.before(() => { throw new Error('the hook'); });
hooked('never runs', () => undefined);
hooked.run();
`;

test('the report names the failed tests of each failed file, and no passed ones', async ({ dir }) => {
  const [failing, silent, good] = ['failing.test.mjs', 'silent.test.mjs', 'good.test.mjs'].map((name) =>
    join(dir, name),
  );
  await writeFile(failing as string, FAILS);
  await writeFile(silent as string, 'process.exitCode = 3;\n');
  await writeFile(good as string, `${UVU}\ntest('is right', () => assert.ok(true));\ntest.run();\n`);
  const results = await Promise.all(
    [failing, silent, good].map((file, index) => runTestFile(file as string, join(dir, String(index)))),
  );
  assert.equal(
    results.map(({ passed, failed }) => [passed, failed]),
    [
      [1, 4],
      [0, 1],
      [1, 0],
    ],
  );
  assert.equal(describeFailures(results), [
    'failed:',
    `  ${failing as string}`,
    '    a suite of some words: says "what" is wrong',
    '    a suite of some words: throws',
    '    without a suite',
    '    1 without a name: a hook of their suite failed',
    `  ${silent as string}`,
    '    ran no test: does it end with test.run()?',
  ]);
  assert.equal(describeFailures(results.slice(2)), []);
});

test('a file that does not end after its last test is ended, and its failed tests are named', async ({ dir }) => {
  const file = join(dir, 'open.test.mjs');
  const open = `test('fails', () => { setInterval(() => undefined, 1000); assert.unreachable(); });`;
  await writeFile(file, `${UVU}\n${open}\ntest.run();\n`);
  const result = await runTestFile(file, join(dir, 'scratch'), { endMs: 200 });
  assert.is(result.failed, 2);
  assert.equal(result.failures, ['fails', 'did not end within 0.2 s of its last test']);
});

test('a starved file stands still again and again', async ({ dir }) => {
  const file = join(dir, 'starved.test.mjs');
  const stops = `test('stops', async () => {
    for (let stops = 0; stops < 3; ) {
      const began = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 1));
      if (performance.now() - began >= 190) stops += 1;
    }
  });`;
  await writeFile(file, `${UVU}\n${stops}\ntest.run();\n`);
  const result = await runTestFile(file, join(dir, 'scratch'), { starved: true });
  assert.equal([result.passed, result.failed], [1, 0]);
});

test('the report names the failed native tests', () => {
  const output = `50% tests passed, 2 tests failed out of 4

Total Test time (real) =   3.01 sec

The following tests FAILED:
\t  3 - loop_test (Failed)
\t 12 - storm_test (Timeout)
Errors while running CTest
`;
  assert.equal(failedNativeTests(output), ['loop_test', 'storm_test (Timeout)']);
  assert.equal(failedNativeTests('100% tests passed, 0 tests failed out of 4\n'), []);
});

test.run();
