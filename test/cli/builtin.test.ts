/** The built-in model on first use: an empty home, no network, free-form questions. */
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { ControlClient } from '../../src/client/control-client.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import { PATIENCE_MS } from '../support/wait.ts';

const test = suite<{ home: Home; run: (...args: string[]) => Promise<SvcResult> }>('builtin');

test.before(async (context) => {
  context.home = await makeHome();
  context.run = (...args) => svc(['run', ...args], { home: context.home });
});
test.after(async ({ home }) => {
  await svc(['stop'], { home });
  await home.remove();
});

const INTRODUCTION = /^svc: this was svc's built-in model: .*svc model pull/m;

test('the first answer introduces the built-in model, later ones do not', async ({ run }) => {
  const first = await run('how do I stop the daemon?');
  assertExit(first, 0);
  assert.match(first.stdout, /`svc stop`/);
  assert.match(first.stderr, INTRODUCTION);
  assert.not.match((await run('hello')).stderr, INTRODUCTION);
});

test('it answers questions about svc and sums, and admits what it does not know', async ({ run }) => {
  for (const [question, answer] of [
    ['how do i use a cloud provider?', /--cloud|--provider/],
    ['where are the logs', /svc logs|daemon\.log/],
    ['my prompt is too long', /CONTEXT_OVERFLOW/],
    ['what is a token', /piece of text/],
    ['what is 12 + 31?', /= 43$/m],
    ['hello', /^Hello/],
    ['who won the football match yesterday', /I don't know.*`svc model pull`/],
    ['write a poem about autumn', /I don't know/],
  ] as const) {
    assert.match((await run(question)).stdout, answer, question);
  }
});

test('by default it decodes greedily, as its file says; a request may set a temperature', async ({ run }) => {
  const json = async (...args: string[]): Promise<GenerateResult> =>
    JSON.parse((await run('--json', ...args, 'how do I stop the daemon?')).stdout) as GenerateResult;
  const plain = await json();
  assert.is(plain.model, 'builtin');
  assert.is(plain.finish_reason, 'stop');
  assert.is((await json('--temperature', '0')).text, plain.text);
  const hot = await Promise.all(
    [1, 2, 3].map((seed) =>
      json('--temperature', '50', '--top-k', '0', '--top-p', '1', '--min-p', '0', '--seed', String(seed)),
    ),
  );
  assert.ok(hot.every(({ text }) => text !== plain.text));
});

test('a stop string ends an answer, and max_tokens cuts it off', async ({ run }) => {
  assert.not.match((await run('--stop', '`', 'how do I stop the daemon?')).stdout, /`/);
  const cut = await run('--json', '--max-tokens', '4', 'how do I stop the daemon?');
  assert.is((JSON.parse(cut.stdout) as GenerateResult).finish_reason, 'length');
});

test('a conversation of three turns', async ({ home }) => {
  const client = new ControlClient(join(home.dir, 'run', 'svc.sock'));
  const messages: { role: 'user' | 'assistant'; content: string }[] = [];
  const said: string[] = [];
  for (const content of ['how do I start the daemon?', 'and how do I stop it?', 'thanks']) {
    messages.push({ role: 'user', content });
    let text = '';
    for await (const event of client.generate(
      { messages, sampling: {}, stop: [] },
      { signal: AbortSignal.timeout(PATIENCE_MS) },
    )) {
      if (event.type === 'text') text += event.text;
    }
    messages.push({ role: 'assistant', content: text });
    said.push(text);
  }
  assert.match(said[0]!, /`svc start`/);
  assert.match(said[1]!, /`svc stop`/);
  assert.match(said[2]!, /welcome/);
});

test('a model added by the user can replace it as the default', async ({ home, run }) => {
  const list = async (): Promise<readonly ModelRecord[]> =>
    (JSON.parse((await svc(['model', 'list', '--json'], { home })).stdout) as { models: ModelRecord[] }).models;
  assert.equal(
    (await list()).map(({ id, builtin, default: isDefault }) => [id, builtin, isDefault]),
    [['builtin', true, true]],
  );
  const path = join(import.meta.dirname, '..', '..', 'build', 'models', 'tiny-qwen2.gguf');
  assertExit(await svc(['model', 'add', path, '--name', 'mine'], { home }), 0);
  assertExit(await svc(['model', 'default', 'mine'], { home }), 0);
  const answer = await run('--json', '--max-tokens', '4', 'hello');
  assert.is((JSON.parse(answer.stdout) as GenerateResult).model, 'mine');
  assert.is((await list()).find(({ builtin }) => builtin)?.default, false);
});

test.run();
