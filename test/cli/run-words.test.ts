/** `svc run NAME prompt…`: which words are the model, and what happens if the model is not installed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { findInCatalogue } from '../../src/models/pull/catalogue.ts';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome } from '../support/home.ts';
import type { SvcContext } from '../support/svc-suite.ts';
import { SVC_COMMAND, svc } from '../support/svc.ts';
import { KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { unless } from '../support/skip.ts';

const MODEL = join(import.meta.dirname, '..', '..', 'build', 'models', 'tiny-gemma.gguf');
const IN_CATALOGUE = 'smollm2-360m';
const STEADY = ['--temperature', '0', '--max-tokens', '4'];

const test = suite<SvcContext>('svc run NAME');
const hub = new FakeHub();
test.before(async (context) => {
  const home = (context.home = await makeHome());
  const run = (context.run = (...args) => svc(args, { home }));
  await hub.start();
  hub.add(findInCatalogue(IN_CATALOGUE)?.repo ?? '', 'smollm2-360m-instruct-q8_0.gguf', readFileSync(MODEL));
  assertExit(await run('model', 'add', '--name', 'gemma3-tiny', MODEL), 0);
  await run('config', 'set', 'models.mario.from', 'gemma3-tiny');
});
test.after(async ({ home, run }) => {
  await run('stop', '--force');
  await home.remove();
  await hub.stop();
});
const env = (): Record<string, string> => ({ HF_ENDPOINT: hub.endpoint });

interface Answered {
  readonly model: string;
  readonly tokens: number;
}

test('the first word is the model if it names one; the other words are one prompt', async ({ home }) => {
  const answered = async (...words: string[]): Promise<Answered> => {
    const { stdout, stderr } = await svc(['run', ...STEADY, '--json', ...words], { home });
    assert.match(stdout, /^\{/, stderr);
    const { model, usage } = JSON.parse(stdout) as GenerateResult;
    return { model, tokens: usage?.input_tokens ?? 0 };
  };
  const quoted = await answered('-m', 'gemma3-tiny', 'how are you');
  assert.is(quoted.model, 'gemma3-tiny');
  assert.equal(await answered('gemma3-tiny', 'how', 'are', 'you'), quoted);
  assert.equal(await answered('GEMMA3-tiny', 'how are you'), quoted);
  assert.equal(await answered('gemma3-tiny', '--', 'how', 'are', 'you'), quoted);
  assert.is((await answered('mario', 'how', 'are', 'you')).model, 'mario');
  assert.is((await answered('-m', 'default', 'hi')).model, 'builtin');
  assert.is((await answered(MODEL, 'how', 'are', 'you')).tokens, quoted.tokens);
  // Not the name of a model: the default model gets all words.
  const asked = await answered('what', 'is', 'svc');
  assert.equal(asked, await answered('-m', 'builtin', 'what is svc'));
  assert.equal(await answered('what is svc'), asked);
  assert.equal(await answered('--', 'gemma3-tiny', 'is'), await answered('-m', 'builtin', 'gemma3-tiny is'));
  assert.equal(await answered('-m', 'builtin', 'mario', 'is'), await answered('-m', 'builtin', 'mario is'));
});

test('the prompt of a named model may come from standard input', async ({ home }) => {
  const tokens = async (words: string[], input?: string): Promise<number> => {
    const { stdout, stderr } = await svc(['run', ...STEADY, '--json', ...words], {
      home,
      ...(input === undefined ? {} : { input }),
    });
    assert.match(stdout, /^\{/, stderr);
    return (JSON.parse(stdout) as GenerateResult).usage?.input_tokens ?? 0;
  };
  const whole = await tokens(['gemma3-tiny', 'Sum up\n\none two']);
  assert.is(await tokens(['gemma3-tiny', 'Sum', 'up'], 'one two'), whole);
  assert.is(await tokens(['gemma3-tiny'], 'Sum up\n\none two'), whole);
  assert.is(await tokens(['gemma3-tiny', '-'], 'Sum up\n\none two'), whole);
  const none = await svc(['run', 'gemma3-tiny'], { home });
  assertExit(none, 2);
  assert.match(none.stderr, /no prompt was given\nhint: gemma3-tiny is a model: .*svc run -- gemma3-tiny/);
});

test('a word that is almost a model, or looks like one, is refused', async ({ home }) => {
  const almost = await svc(['run', 'gemma3-tinny', 'hi'], { home });
  assertExit(almost, 1);
  assert.match(almost.stderr, /there is no model "gemma3-tinny"\nhint: did you mean gemma3-tiny\? .*in quotes/);
  const tagged = await svc(['run', 'zephyr:7b', 'hi'], { home });
  assertExit(tagged, 1);
  assert.match(tagged.stderr, /hint: pull it: svc model pull ollama:zephyr:7b/);
  const other = await svc(['run', 'qwen3:32b', 'hi'], { home });
  assertExit(other, 1);
  assert.match(other.stderr, /hint: pull it: svc model pull ollama:qwen3:32b/);
});

test('a model of the catalogue is pulled with --yes, and only then', async ({ home, run }) => {
  const refused = await svc(['run', IN_CATALOGUE, 'hi'], { home, env: env() });
  assertExit(refused, 1);
  assert.match(refused.stderr, /hint: pull it: svc model pull smollm2-360m, or answer with --yes in advance/);
  const pulled = await svc(['run', ...STEADY, '--yes', '--json', IN_CATALOGUE, 'hi'], { home, env: env() });
  assertExit(pulled, 0);
  assert.match(pulled.stderr, /pulling .*SmolLM2/);
  // Standard output has the answer alone.
  assert.match((JSON.parse(pulled.stdout) as GenerateResult).model, /SmolLM2/);
  assertExit(await run('model', 'rm', '--yes', IN_CATALOGUE), 0);
});

unless(NO_TERMINAL, test)('on a terminal the pull is offered, and a model alone begins a chat', async ({ home }) => {
  const terminal = new Terminal([...SVC_COMMAND, 'run', IN_CATALOGUE], { ...home.env, ...env() });
  try {
    await terminal.shows('smollm2-360m is not installed. Pull it? [y/N]');
    terminal.type(`y${KEYS.enter}`);
    await terminal.shows(/chatting with smollm2-360m.*\n.*>>> /s);
    terminal.type(KEYS.ctrlD);
    assert.is(await terminal.end(), 0);
  } finally {
    terminal.kill();
  }
});

test.run();
