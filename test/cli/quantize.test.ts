/** `svc model quantize` on the command line. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import type { QuantizeEvent } from '../../src/protocol/model/quantize.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { spawnSvc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { waitFor } from '../support/wait.ts';

const F16 = fileURLToPath(new URL('../../build/models/tiny-gemma.gguf', import.meta.url));

const test = svcSuite('svc model quantize');

test('makes a smaller copy, named after the model and the type', async ({ run }) => {
  assertExit(await run('model', 'add', F16, '--name', 'gemma'), 0);
  const made = await run('model', 'quantize', 'gemma', 'q8_0');
  assertExit(made, 0);
  assert.match(made.stderr, /creating gemma-q8_0 from gemma \([\d.]+ MB to [\d.]+ MB\)/);
  assert.match(made.stderr, /100 %/);
  assert.match(made.stdout, /^created gemma-q8_0 \([\d.]+ MB\); try it: svc run -m gemma-q8_0 "Hello"\n$/);
  const shown = JSON.parse((await run('model', 'show', 'gemma-q8_0', '--json')).stdout) as ModelRecord;
  assert.is(shown.quantization, 'Q8_0');
  const again = await run('model', 'quantize', 'gemma', 'Q8_0', '--json');
  assertExit(again, 2);
  assert.match(again.stderr, /a model with this name exists: gemma-q8_0/);
});

test('--json prints lines, the last of which is the model', async ({ run }) => {
  const { code, stdout } = await run('model', 'quantize', F16, 'Q4_0', '--name', 'small', '--json');
  assert.is(code, 0);
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as QuantizeEvent);
  assert.is(events[0]?.type, 'planned');
  const last = events.at(-1);
  assert.ok(last?.type === 'quantized' && last.model.id === 'small');
});

test('Ctrl-C leaves no process and no file', async ({ home, run }) => {
  const { path } = JSON.parse((await run('model', 'add', F16, '--copy', '--json')).stdout) as ModelRecord;
  const running = spawnSvc(['model', 'quantize', 'tiny-gemma', 'Q6_K', '--json'], { home });
  await waitFor('the beginning', () => running.stdout().includes('"planned"'));
  running.child.kill('SIGINT');
  const { code, stderr, stdout } = await running.result;
  // A model of a megabyte may be finished before the signal arrives.
  const wasDone = stdout.includes('"quantized"');
  assert.is(code, wasDone ? 0 : 130, stderr);
  assert.is((await readdir(join(path, '..'))).length, wasDone ? 2 : 1);
});

test('an unknown type is refused with the list of known types', async ({ run }) => {
  const { code, stderr } = await run('model', 'quantize', 'builtin', 'tiny');
  assert.is(code, 2);
  assert.match(stderr, /there is no type "tiny"/);
  assert.match(stderr, /Q4_K_M/);
});

test.run();
