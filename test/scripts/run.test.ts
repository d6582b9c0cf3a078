/** Steps run programs, and read what these answer. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { run, shellWords, StepError } from '../../scripts/steps/run.js';
import { thirdOf } from '../../scripts/steps/part.js';

const test = suite('running programs');
const node = (code: string): Promise<string> => run('a program', process.execPath, ['-e', code]);

test('a warning is no part of the answer', async () => {
  assert.is(await node(`console.error('Warning: no such file'); console.log('answer');`), 'answer\n');
});

test('a failed step shows both streams and the command', async () => {
  const code = `console.log('half'); console.error('why'); process.exitCode = 3;`;
  const error = await node(code).catch((reason: unknown) => reason);
  assert.instance(error, StepError);
  const { message } = error as Error;
  for (const part of ['half\n', 'why\n', 'a program: failed (exit 3): ', process.execPath])
    assert.ok(message.includes(part), message);
});

test('the words of a command line of Windows are quoted where its shell would split them', () => {
  assert.equal(shellWords(['npm', 'ci', '--prefix=C:\\svc', 'svc@1.0']), ['npm', 'ci', '--prefix=C:\\svc', 'svc@1.0']);
  assert.equal(shellWords(['C:\\Program Files\\pnpm.cmd', 'R&D', '']), [
    '"C:\\Program Files\\pnpm.cmd"',
    '"R&D"',
    '""',
  ]);
});

test('only the hash of a commit selects a third', () => {
  for (const text of ['', 'HEAD', 'warning: x\n'.padEnd(40, '0'), '0'.repeat(39)])
    assert.throws(() => thirdOf(text), /not the hash of a commit/);
});

test.run();
