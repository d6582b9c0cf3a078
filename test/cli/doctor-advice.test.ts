/** What `svc doctor` advises to do first, by what the checks found and what the machine has. */
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { adviceFrom, suggestedFor, type Machine } from '../../src/cli/commands/doctor/advice.ts';
import { check } from '../../src/cli/commands/doctor/check.ts';
import { catalogue, estimatedBytes } from '../../src/models/pull/catalogue.ts';
import type { DoctorRecord } from '../../src/protocol/doctor.ts';
import { unknownFile } from '../../src/models/store/record.ts';
import { assertExit } from '../support/exit.ts';
import { svcSuite } from '../support/svc-suite.ts';

const test = svcSuite('doctor advice');
const GIB = 1024 ** 3;
const machine = (memory: number, disk: number, gflops: number | null): Machine => ({
  memoryBytes: memory * GIB,
  diskBytes: disk * GIB,
  gflops,
});
const model = (id: string) => unknownFile(id, 'file', '/x');

test('models are suggested that fit in memory, on the disk and in speed', () => {
  const sizes = new Map(
    catalogue().models.map((entry) => [entry.name, estimatedBytes(entry, entry.default_quantization)]),
  );
  const sizeOf = (name = ''): number => sizes.get(name) ?? Infinity;
  for (const memory of [2, 4, 8, 16, 32, 64]) {
    const [best, code, fast] = suggestedFor(machine(memory, 1000, null));
    assert.ok(sizeOf(best?.name) < memory * GIB);
    assert.match(code?.name ?? '', 'coder');
    assert.ok(sizeOf(fast?.name) < sizeOf(best?.name));
    assert.is(best?.estimated_tokens_per_second, null);
  }
  const [large] = suggestedFor(machine(64, 1000, null));
  assert.ok(sizeOf(suggestedFor(machine(64, 6, null))[0]?.name) < 5 * GIB, 'the disk');
  const [slow] = suggestedFor(machine(64, 1000, 10));
  assert.ok(sizeOf(slow?.name) < sizeOf(large?.name) && (slow?.estimated_tokens_per_second ?? 0) >= 4, 'the speed');
  assert.equal(suggestedFor(machine(0.1, 1000, null)), []);
});

test('a failed check is first, then a model, then a warning', () => {
  const fail = check('log', 'fail', null, { hint: 'mend it' });
  const warn = check('user', 'warn', null, { hint: 'be another' });
  const here = machine(8, 100, 100);
  const first = (...args: [checks: (typeof fail)[], ...ids: string[]]): string | null => {
    const [checks, ...ids] = args;
    return adviceFrom(checks, ids.map(model), here).first;
  };
  assert.is(first([warn, fail], 'builtin'), 'log: mend it');
  assert.match(first([warn], 'builtin') ?? '', /^svc pull \S+$/);
  assert.is(first([warn], 'builtin', 'mine'), 'user: be another');
  assert.is(first([], 'builtin', 'mine'), null);
  const daemon = check('daemon', 'warn', null, { hint: 'see the log' });
  assert.is(first([daemon], 'builtin', 'mine'), 'daemon: see the log');
  const store = check('model_store', 'warn', null, { hint: 'restore the file' });
  assert.is(first([daemon, store], 'builtin', 'mine'), 'model_store: restore the file');
  assert.is(adviceFrom([], null, here).only_builtin, false);
});

test('doctor says that only the built-in model is installed, and what to pull', async ({ run }) => {
  const text = await run('doctor', '--offline');
  assert.match(text.stdout, /\nFirst: .*\n\nOnly the built-in model is installed, .*(fits|here)/);
  const { advice } = JSON.parse((await run('doctor', '--offline', '--json')).stdout) as DoctorRecord;
  assert.is(advice.only_builtin, true);
  const file = join(import.meta.dirname, '..', '..', 'build', 'models', 'tiny-llama.gguf');
  assertExit(await run('model', 'add', file), 0);
  assert.not.match((await run('doctor', '--offline')).stdout, /Only the built-in model/);
});

test.run();
