/** Names that the config gives to models, in a real daemon with real engines: requests, engines, reload, CLI. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateRequest, GenerateResult } from '../../src/protocol/generate.ts';
import { given } from '../../src/protocol/given.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { connectTo } from '../grpc/scripted.ts';
import { assertExit } from '../support/exit.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { rejection } from '../support/errors.ts';
import { firstText } from '../support/first-text.ts';
import { configure } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

interface Context extends DaemonContext {
  configure(models: object, others?: object): void;
  /** Starts a daemon beside the model `tiny`. */
  start(): Promise<DaemonProcess>;
}

const test: ReturnType<typeof suite<Context>> = daemonSuite<Context>('model names');
test.before.each(async (context) => {
  const { home } = context;
  context.configure = (models, others = {}) => {
    configure(home, { models, engine: { threads: 1 }, ...others });
  };
  context.start = async () => await startIn(context).settled();
  assertExit(await svc(['model', 'add', modelPath('tiny-qwen2'), '--name', 'tiny'], { home }), 0);
});

interface Answer {
  readonly text: string;
  readonly model: string;
  readonly input: number;
  readonly output: number;
}

async function answer(
  { client }: DaemonProcess,
  model: string | undefined,
  asked: Partial<GenerateRequest> = {},
): Promise<Answer> {
  const request = {
    messages: [{ role: 'user' as const, content: 'Who are you?' }],
    max_tokens: 12,
    sampling: {},
    stop: [],
    ...given({ model }),
    ...asked,
  };
  let [text, named, input, output] = ['', '', 0, 0];
  for await (const event of client.generate(request)) {
    if (event.type === 'text') text += event.text;
    if (event.type === 'start') named = event.model;
    if (event.type === 'finish') [input, output] = [event.usage?.input_tokens ?? 0, event.usage?.output_tokens ?? 0];
  }
  return { text, model: named, input, output };
}

const loadedPids = async ({ client }: DaemonProcess, ...ids: string[]): Promise<(number | undefined)[]> => {
  const models = await client.models();
  return ids.map((id) => models.find((model) => model.id === id)?.loaded?.pid);
};

const SYSTEM = 'You are Mario, a plumber from Brooklyn who answers in few words.';
const WITH_SYSTEM = [
  { role: 'system' as const, content: SYSTEM },
  { role: 'user' as const, content: 'Who are you?' },
];
const GREEDY = { sampling: { temperature: 0 } };

test('the limit of a name takes precedence over the default of legacy completions', async ({ configure, start }) => {
  configure({ brief: { from: 'tiny', max_tokens: 3 } });
  const { http } = await (await start()).client.status();
  const complete = async (model: string, more: object = {}): Promise<number> => {
    const res = await fetch(`http://${String(http)}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      // The bias keeps the model from ending its turn.
      body: JSON.stringify({ model, prompt: 'a', logit_bias: { '100': 100 }, temperature: 0, ...more }),
    });
    return ((await res.json()) as { usage: { completion_tokens: number } }).usage.completion_tokens;
  };
  assert.equal(
    await Promise.all([complete('brief'), complete('tiny'), complete('brief', { max_tokens: 5 })]),
    [3, 16, 5],
  );
});

test('a name adds its settings to requests, below their own fields', async ({ configure, start }) => {
  configure({
    mario: { from: 'tiny', system: SYSTEM, sampling: { temperature: 0, logit_bias: [[100, 50]] }, max_tokens: 3 },
  });
  const daemon = await start();
  const asked: Partial<GenerateRequest> = { sampling: { temperature: 0, logit_bias: [[100, 50]] }, max_tokens: 3 };
  const expected = await answer(daemon, 'tiny', { messages: WITH_SYSTEM, ...asked });
  const mario = await answer(daemon, 'Mario', { max_tokens: 3 });
  assert.equal({ ...mario, model: 'tiny' }, expected, 'system and sampling');
  assert.is(mario.model, 'mario');

  const plain = await answer(daemon, 'tiny', GREEDY);
  assert.is.not(mario.input, plain.input, 'the system message counts');
  const own = await answer(daemon, 'mario', { messages: [{ role: 'system', content: 'x' }, WITH_SYSTEM[1]!] });
  assert.ok(own.input < mario.input, 'a request with a system message keeps its own');
  const unbiased = await answer(daemon, 'mario', { sampling: { logit_bias: [] }, max_tokens: 5 });
  assert.is(unbiased.output, 5);
  assert.is.not(unbiased.text.slice(0, mario.text.length), mario.text);
});

test('the limit of tokens and the stop strings of a name hold where the request has none', async ({
  configure,
  start,
}) => {
  configure({
    short: { from: 'tiny', max_tokens: 2, sampling: { temperature: 0 } },
    ended: { from: 'tiny', stop: [] },
  });
  const daemon = await start();
  const { text, output } = await answer(daemon, 'tiny', { ...GREEDY, max_tokens: 12 });
  assert.ok(output > 2);
  const stop = text.slice(Math.floor(text.length / 2), Math.floor(text.length / 2) + 3);
  configure({
    short: { from: 'tiny', max_tokens: 2 },
    ended: { from: 'tiny', sampling: { temperature: 0 }, stop: [stop] },
  });
  await daemon.client.reload();
  const http = `http://${String((await daemon.client.status()).http)}/v1/chat/completions`;
  const ask = async (body: object): Promise<{ choices: { message: { content: string }; finish_reason: string }[] }> => {
    const messages = [{ role: 'user', content: 'Who are you?' }];
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(http, { method: 'POST', headers, body: JSON.stringify({ messages, ...body }) });
    return (await reply.json()) as Awaited<ReturnType<typeof ask>>;
  };
  assert.is((await ask({ model: 'short' })).choices[0]?.finish_reason, 'length');
  const ended = (await ask({ model: 'ended', max_tokens: 12 })).choices[0];
  assert.equal([ended?.message.content, ended?.finish_reason], [text.slice(0, text.indexOf(stop)), 'stop']);
});

test('names with the same load settings share an engine; others have their own', async ({ configure, start }) => {
  configure({
    one: { from: 'tiny', system: 'one' },
    two: { from: 'one', sampling: { temperature: 0 } },
    long: { from: 'tiny', context_length: 512 },
    longer: { from: 'long', system: 'x' },
    quantised: { from: 'tiny', context_length: 512, cache_type: 'q8_0' },
  });
  const daemon = await start();
  for (const id of ['one', 'two', 'tiny', 'longer', 'quantised', 'long']) {
    assert.is((await answer(daemon, id, { max_tokens: 1 })).model, id);
  }
  const [one, two, tiny, long, longer, quantised] = await loadedPids(
    daemon,
    'one',
    'two',
    'tiny',
    'long',
    'longer',
    'quantised',
  );
  assert.ok(one !== undefined && long !== undefined && quantised !== undefined);
  assert.equal([two, tiny, longer], [one, one, long]);
  assert.is(new Set([one, long, quantised]).size, 3);
  const health = await daemon.client.health();
  const shown = health.models.map(({ id, context_length, cache_type }) => [id, context_length, cache_type]);
  assert.equal(shown.filter(([id]) => id !== 'builtin' && id !== 'tiny').sort(), [
    ['longer', 512, 'f16'],
    ['quantised', 512, 'q8_0'],
  ]);
  assert.ok(shown.some(([id]) => id === 'tiny'));

  await daemon.client.unload('two');
  assert.equal(await loadedPids(daemon, 'one', 'tiny', 'long'), [undefined, undefined, long]);
});

test('a reload changes new requests, and replaces an engine whose load settings have changed once it is idle', async ({
  configure,
  start,
}) => {
  configure({ mario: { from: 'tiny', context_length: 65_536 } });
  const daemon = await start();
  for await (const _ of daemon.client.load('mario', new AbortController().signal, { pin: true }));
  const [before] = await loadedPids(daemon, 'mario');
  const answered = daemon.client.generate({
    model: 'mario',
    prompt: 'Go on',
    sampling: { logit_bias: [[100, 100]] },
  });
  const running = answered[Symbol.asyncIterator]();
  await firstText(running);

  configure({ mario: { from: 'tiny', context_length: 512, max_tokens: 2 } });
  assert.equal(await daemon.client.reload(), { applied: ['models.mario'], restart_needed: [] });
  assert.is((await answer(daemon, 'mario')).output, 12);
  const [now] = await loadedPids(daemon, 'mario');
  assert.ok(now !== undefined && now !== before, 'new requests have the new engine');
  assert.is((await running.next()).value?.type, 'text', 'the running answer goes on in the old one');
  await running.return();
  await waitFor('the old engine to end', async () => {
    const { models } = await daemon.client.health();
    return models.filter(({ id }) => id === 'mario').length === 1;
  });
  assert.equal(await loadedPids(daemon, 'mario'), [now]);

  configure({ mario: { from: 'tiny', context_length: 1024 } });
  daemon.kill('SIGHUP');
  await waitFor('a kept engine to be loaded again with its new context', async () => {
    const mario = (await daemon.client.models()).find(({ id }) => id === 'mario');
    return mario?.loaded?.context_length === 1024;
  });
  configure({});
  await daemon.client.reload();
  await rejection(() => answer(daemon, 'mario'), 'MODEL_NOT_FOUND');
  await waitFor('the engine of a removed name to end', async () => {
    const { models } = await daemon.client.health();
    return models.every(({ id }) => id !== 'mario');
  });
});

test('a name goes before the model file, and a request before both', async ({ configure, start, home }) => {
  // The file of the built-in model recommends greedy sampling.
  configure({
    file: { from: 'builtin' },
    biased: { from: 'builtin', sampling: { temperature: 5, top_k: 0, top_p: 1, min_p: 0, seed: 1 } },
  });
  const daemon = await start();
  const greedy = await answer(daemon, 'builtin', GREEDY);
  assert.is((await answer(daemon, 'file')).text, greedy.text);
  assert.is.not((await answer(daemon, 'biased')).text, greedy.text);
  assert.is((await answer(daemon, 'biased', GREEDY)).text, greedy.text);
  const show = async (name: string): Promise<string> => (await svc(['model', 'show', name], { home })).stdout;
  assert.match(await show('file'), /^temperature: +0 \(recommended by its file\)$/m);
  const biased = await show('biased');
  assert.match(biased, /^temperature: +5$/m);
  assert.not.match(biased, 'recommended');
});

test('every API and command takes the name', async ({ configure, start, home }) => {
  configure(
    { mario: { from: 'tiny', system: SYSTEM, sampling: { temperature: 0 }, keep_alive: -1 }, lost: { from: 'gone' } },
    { policies: { mine: { candidates: ['local/mario'] } } },
  );
  const run = async (...args: string[]): Promise<any> => {
    const { code, stdout, stderr } = await svc([...args, '--json'], { home });
    assert.is(code, 0, stderr);
    return JSON.parse(stdout);
  };
  const listed = (await run('model', 'list')) as { models: ModelRecord[] };
  assert.is(listed.models.find(({ id }) => id === 'mario')?.from, 'tiny', 'without a daemon');
  await run('model', 'default', 'mario');
  const daemon = await start();
  const { http, grpc } = await daemon.client.status();
  assert.ok((await loadedPids(daemon, 'mario'))[0] !== undefined, 'the default model is loaded');

  const { text } = await answer(daemon, 'tiny', { messages: WITH_SYSTEM, ...GREEDY });
  for (const model of [undefined, 'mario', 'mine']) {
    const result = await answer(daemon, model);
    assert.equal([result.text, result.model], [text, 'mario']);
  }
  const asked = (await run('run', '-m', 'mario', '--max-tokens', '12', 'Who are you?')) as GenerateResult;
  assert.equal([asked.text, asked.model], [text, 'mario']);
  assert.is((await answer(daemon, 'mario', { route: 'local' })).text, text);

  const models = (await (await fetch(`http://${String(http)}/v1/models`)).json()) as { data: { id: string }[] };
  assert.ok(models.data.some(({ id }) => id === 'mario'));
  assert.is((await fetch(`http://${String(http)}/v1/models/mario`)).status, 200);
  const client = connectTo(grpc ?? '');
  const over = await client.unary('Runtime/ListModels');
  assert.is(over.models.find(({ id }: ModelRecord) => id === 'mario')?.from, 'tiny');
  client.close();

  const shown = (await run('model', 'show', 'mario')) as ModelRecord;
  assert.equal(shown.settings, { system: SYSTEM, sampling: { temperature: 0 }, keep_alive: -1 });
  const table = (await svc(['model', 'show', 'mario'], { home })).stdout;
  assert.match(table, /^from: +tiny$/m);
  assert.match(table, /^temperature: +0$/m);
  const failure = await svc(['run', '-m', 'lost', 'Hello'], { home });
  assert.match(failure.stderr, /lost cannot be used: the model "gone" is not installed/);
  const store = (await daemon.client.ready()).conditions.find(({ name }) => name === 'model_store');
  assert.match(store?.reason ?? '', /lost/);

  await run('model', 'rm', 'mario');
  assert.not.match(readFileSync(join(home.dir, 'config', 'config.json'), 'utf8'), '"mario"');
  await rejection(() => answer(daemon, 'mario'), 'MODEL_NOT_FOUND');
  assert.is((await answer(daemon, undefined, { max_tokens: 1 })).model, 'builtin');
  await run('model', 'show', 'tiny');
});

test.run();
