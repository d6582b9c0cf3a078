/** `svc model create`: Modelfiles on the command line, with and without a daemon. */
import { readFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';

const test = svcSuite('model create');

const ADAPTER = join(import.meta.dirname, '..', '..', 'build', 'models', 'adapters', 'llama-attention.gguf');

test('a Modelfile becomes a name of the config, which keeps its comments', async ({ home, run }) => {
  const config = join(home.dir, 'config', 'config.json');
  mkdirSync(join(home.dir, 'config'), { recursive: true });
  writeFileSync(config, '{\n  // ours\n  "engine": { "threads": 1 }\n}\n');
  await copyFile(modelPath('tiny-qwen2'), join(home.dir, 'weights.gguf'));
  const modelfile = join(home.dir, 'Modelfile');
  writeFileSync(
    modelfile,
    'FROM ./weights.gguf\nPARAMETER temperature 0\nPARAMETER num_predict 5\nPARAMETER num_thread 3\nSYSTEM """You are\nMario."""\n',
  );
  const made = await run('model', 'create', 'mario', '-f', modelfile);
  assertExit(made, 0);
  assert.match(made.stdout, /^created mario from weights; try it: svc run -m mario "Hello"$/m);
  assert.match(made.stderr, /Modelfile: line 4: PARAMETER num_thread: svc chooses it for the machine/);
  const text = readFileSync(config, 'utf8');
  assert.match(text, '// ours');
  assert.match(text, '"from": "weights"');

  const answer = async (): Promise<GenerateResult> => {
    const { code, stdout, stderr } = await run('run', '-m', 'mario', '--json', 'Hello');
    assert.is(code, 0, stderr);
    return JSON.parse(stdout) as GenerateResult;
  };
  const first = await answer();
  assert.is(first.usage?.output_tokens, 5);
  const again = await svc(['model', 'create', 'Mario', '-f', '-', '--json'], {
    home,
    input: 'from weights\nparameter num_predict 2\n',
  });
  assert.equal(JSON.parse(again.stdout), { name: 'Mario', settings: { from: 'weights', max_tokens: 2 }, skipped: [] });
  const second = await answer();
  assert.is(second.usage?.output_tokens, 2, 'the running daemon has it');
  assert.is(second.model, 'Mario');
  const printed = (await run('model', 'show', 'mario', '--modelfile')).stdout;
  assert.is(printed, 'FROM weights\nPARAMETER num_predict 2\n');

  assertExit(await run('model', 'rm', 'mario'), 0);
  const { models } = JSON.parse((await run('model', 'list', '--json')).stdout) as { models: ModelRecord[] };
  assert.equal(
    models.map(({ id }) => id),
    ['builtin', 'weights'],
  );
});

test('~ in the paths of a Modelfile is the home directory', async ({ home }) => {
  await copyFile(modelPath('tiny-llama'), join(home.dir, 'weights.gguf'));
  await copyFile(ADAPTER, join(home.dir, 'legal.gguf'));
  const made = await svc(['model', 'create', 'mario', '-f', '-', '--json'], {
    home,
    env: { HOME: home.dir, USERPROFILE: home.dir },
    input: 'FROM ~/weights.gguf\nADAPTER ~/legal.gguf\n',
  });
  assertExit(made, 0);
  const lora = [{ id: 'legal', scale: 1 }];
  assert.equal(JSON.parse(made.stdout), { name: 'mario', settings: { from: 'weights', lora }, skipped: [] });
});

test('errors name the line, the model or the name', async ({ home, run }) => {
  await run('model', 'add', modelPath('tiny-llama'), '--name', 'taken');
  for (const [name, input, code, message] of [
    ['x', 'FROM builtin\nTEMPLATE {{ .Prompt }}', 65, /standard input:2: TEMPLATE is not supported/],
    ['x', 'FROM builtin\nWHAT 1', 65, /standard input:2: unknown instruction WHAT/],
    ['x', 'FROM gone:7b', 1, /FROM gone:7b: there is no model "gone:7b"[\s\S]*svc model pull ollama:gone:7b/],
    ['x', 'FROM ./gone.gguf', 1, /gone\.gguf/],
    ['taken', 'FROM builtin', 2, /a model with this name exists: taken/],
    ['builtin', 'FROM taken', 2, /taken by the built-in model/],
    ['dir', 'FROM builtin', 2, /models\.dir is a setting of svc and cannot be the name of a model/],
    ['a b', 'FROM builtin', 2, /cannot be the name of a model/],
  ] as const) {
    const result = await svc(['model', 'create', name, '-f', '-'], { home, input });
    assert.is(result.code, code, `${input}: ${result.stderr}`);
    assert.match(result.stderr, message);
  }
  const missing = await run('model', 'create', 'x', '-f', join(home.dir, 'nothing'));
  assertExit(missing, 65);
  assert.match(missing.stderr, /no such file/);
});

test.run();
