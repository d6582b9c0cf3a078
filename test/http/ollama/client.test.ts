/** Ollama's own client and a real daemon, on the port of its own that the config gives to Ollama's clients. */
import { join } from 'node:path';
import { Ollama } from 'ollama';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../../src/home/key-file.ts';
import { assertExit } from '../../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { holdEngines } from '../../support/hold.ts';
import { configure, makeHome, type Home } from '../../support/home.ts';
import { writeInfillModel } from '../../support/infill-model.ts';
import { png, projectorPath } from '../../support/media-files.ts';
import { modelPath } from '../../support/native-engine.ts';
import { svc } from '../../support/svc.ts';
import { waitFor } from '../../support/wait.ts';

let home: Home;
let daemon: DaemonProcess;
let client: Ollama;
let token: string;

const messages = [{ role: 'user', content: 'Will it rain?' }];
const SCHEMA = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['city', 'days'],
};
const FEW = { num_predict: 12, seed: 7, temperature: 1 };

test.before(async () => {
  home = await makeHome();
  for (const [name, file] of [
    ['caller', 'tiny-qwen2'],
    ['thinker', 'tiny-thinker'],
    ['plain', 'tiny-llama'],
    ['vectors', 'tiny-bert'],
  ] as const)
    assertExit(await svc(['model', 'add', modelPath(file), '--name', name], { home }), 0);
  const sees = ['model', 'add', modelPath('tiny-llama'), '--name', 'sees', '--projector', projectorPath('clip')];
  assertExit(await svc(sees, { home }), 0);
  const copied = ['model', 'add', modelPath('tiny-gemma'), '--copy', '--name', 'stored'];
  assertExit(await svc(copied, { home }), 0);
  const infill = join(home.dir, 'infill.gguf');
  await writeInfillModel(infill);
  assertExit(await svc(['model', 'add', infill, '--name', 'infill'], { home }), 0);
  ({ key: token } = await addKey(join(home.dir, 'data', 'keys.json'), 'deploy', 'admin'));
  configure(home, { ollama: { listen: '127.0.0.1:0' } });
  daemon = await spawnDaemon(home).settled();
  const line = await waitFor('its line', () => daemon.log.find(({ msg }) => msg === 'started'));
  const started = line as { readonly ollama?: string };
  const { http, ollama } = await daemon.client.status();
  assert.match(String(started.ollama), /^127\.0\.0\.1:\d+$/);
  assert.is(ollama, started.ollama);
  assert.is.not(started.ollama, http);
  client = new Ollama({ host: `http://${String(started.ollama)}`, headers: { authorization: `Bearer ${token}` } });
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

interface Failure {
  readonly status_code: number;
  readonly error: string;
}

async function failure(work: Promise<unknown>): Promise<Failure> {
  try {
    await work;
  } catch (error) {
    return error as Failure;
  }
  throw new Error('there was no error');
}

async function namesOf(): Promise<string[]> {
  return (await client.list()).models.map(({ name }) => name);
}

test('the version, the models, and one of them', async () => {
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
  const { models } = await client.list();
  const [plain] = models.filter(({ name }) => name === 'plain:latest');
  assert.ok(plain !== undefined && plain.size > 100_000);
  assert.match(plain.digest, /^[0-9a-f]{64}$/);
  assert.equal([plain.details.family, plain.details.quantization_level], ['llama', 'Q8_0']);
  const shown = await client.show({ model: 'plain:latest' });
  const info = shown.model_info as unknown as Record<string, unknown>;
  assert.equal([info['general.architecture'], info['llama.context_length']], ['llama', 8192]);
  assert.is(info['tokenizer.ggml.tokens'], null);
  assert.is(info['tokenizer.chat_template'], undefined);
  assert.match(shown.template, /\{%/);
  assert.equal(shown.capabilities, ['completion']);
  const missing = await failure(client.show({ model: 'nothing' }));
  assert.is(missing.status_code, 404);
  assert.match(missing.error, /model 'nothing' not found/);
});

test('a chat is the same whole and as a stream, with its figures', async () => {
  const asked = { model: 'plain:latest', messages, options: FEW };
  const whole = await client.chat(asked);
  assert.is(whole.model, 'plain:latest');
  assert.equal([whole.done, whole.done_reason, whole.eval_count], [true, 'length', 12]);
  assert.ok(whole.prompt_eval_count > 0 && whole.total_duration >= whole.eval_duration && whole.eval_duration > 0);
  assert.ok(whole.message.content.length > 0);
  let streamed = '';
  let last: { done: boolean; eval_count: number } | undefined;
  for await (const line of await client.chat({ ...asked, stream: true })) {
    streamed += line.message.content;
    last = line;
  }
  assert.is(streamed, whole.message.content);
  assert.equal([last?.done, last?.eval_count], [true, 12]);
});

test('the client goes away in the middle, and the generation ends', async () => {
  const endless = { model: 'plain', messages, stream: true as const, options: { num_predict: 5000 } };
  const stream = await client.chat(endless);
  for await (const line of stream) if (!line.done) break;
  stream.abort();
  await waitFor('the generation to end', async () => {
    const { queue } = await daemon.client.health();
    return queue.active + queue.waiting === 0;
  });
});

test('tools are offered, calls and results read, also where the template has no form for them', async () => {
  const tools = [{ type: 'function', function: { name: 'forecast', description: 'Weather', parameters: SCHEMA } }];
  const asked = { model: 'caller', messages, tools, options: FEW };
  const free = await client.chat(asked as Parameters<typeof client.chat>[0] & { stream?: false });
  const call = { function: { name: 'forecast', arguments: { city: 'Oslo', days: 1 } } };
  const turns = [
    ...messages,
    { role: 'assistant', content: '', tool_calls: [call] },
    { role: 'tool', content: 'It rains.', tool_name: 'forecast' },
  ];
  const second = await client.chat({ model: 'caller', messages: turns, options: FEW });
  assert.ok(second.message.content.length > 0);
  assert.ok(free.prompt_eval_count > second.prompt_eval_count, 'the tools are in the prompt');
  const shown = await client.show({ model: 'caller' });
  assert.ok(shown.capabilities.includes('tools'));
  const plain = await client.chat({ ...asked, model: 'plain' } as Parameters<typeof client.chat>[0] & {
    stream?: false;
  });
  const without = await client.chat({ model: 'plain', messages, options: FEW });
  assert.ok(plain.prompt_eval_count > without.prompt_eval_count + 50, 'the tools are in the prompt');
  assert.not((await client.show({ model: 'plain' })).capabilities.includes('tools'));
});

test('thinking comes apart, and can be turned off', async () => {
  const ask = async (think: boolean, model = 'thinker') =>
    (await client.chat({ model, messages, think, options: { num_predict: 40, seed: 1 } })).message;
  const on = await ask(true);
  assert.ok((on.thinking ?? '').length > 0);
  const off = await ask(false);
  assert.is(off.thinking, undefined);
  assert.ok(off.content.length > 0);
  let streamed = '';
  for await (const line of await client.chat({
    model: 'thinker',
    messages,
    think: true,
    stream: true,
    options: { num_predict: 40, seed: 1 },
  }))
    streamed += line.message.thinking ?? '';
  assert.is(streamed, on.thinking);
  const refused = await failure(ask(true, 'plain'));
  assert.is(refused.status_code, 400);
  assert.match(refused.error, /^"plain" does not support thinking: /);
});

test('an answer follows a schema, and a wrong one is refused by name', async () => {
  const { message } = await client.chat({ model: 'plain', messages, format: SCHEMA, options: { seed: 3 } });
  const answer = JSON.parse(message.content) as { city: string; days: number };
  assert.ok(['Paris', 'Oslo'].includes(answer.city) && answer.days >= 1 && answer.days <= 99);
  const wrong = await failure(client.chat({ model: 'plain', messages, format: { type: 'colour' } }));
  assert.is(wrong.status_code, 400);
  assert.match(wrong.error, /^format/);
});

test('svc status shows the address', async () => {
  const { ollama } = await daemon.client.status();
  const { stdout } = await svc(['status'], { home });
  assert.match(stdout, new RegExp(`^ollama:? +http://${String(ollama)}$`, 'm'));
});

test('a prompt is answered whole and as a stream', async () => {
  const asked = { model: 'plain', prompt: 'Hello', system: 'Be brief.', options: FEW };
  const whole = await client.generate(asked);
  assert.ok((whole.response ?? '').length > 0);
  let streamed = '';
  for await (const line of await client.generate({ ...asked, stream: true })) streamed += line.response ?? '';
  assert.is(streamed, whole.response);
});

test('a raw prompt has no template, and a gap is filled by a model that has tokens for it', async () => {
  const greedy = { num_predict: 6, temperature: 0 };
  const raw = await client.generate({ model: 'plain', prompt: 'Hello', raw: true, options: greedy });
  const { http } = await daemon.client.status();
  const legacy = await fetch(`http://${String(http)}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ model: 'plain', prompt: 'Hello', max_tokens: 6, temperature: 0 }),
  });
  const { choices } = (await legacy.json()) as { choices: { text: string }[] };
  assert.is(raw.response, choices[0]?.text);
  assert.is(raw.context, undefined);

  const gap = { prompt: 'int a = ', suffix: ';', options: greedy };
  const filled = await client.generate({ ...gap, model: 'infill' });
  assert.ok((filled.response ?? '').length > 0 && filled.prompt_eval_count > 0);
  const { status_code, error } = await failure(client.generate({ ...gap, model: 'plain' }));
  assert.is(status_code, 400);
  assert.match(error, /suffix/);
});

test('a context goes on with the conversation, also in a stream', async () => {
  const asked = { model: 'plain', system: 'Be brief.', options: { ...FEW, temperature: 0 } };
  const first = await client.generate({ ...asked, prompt: 'Hello' });
  let streamed: number[] | undefined;
  for await (const line of await client.generate({ ...asked, prompt: 'Hello', stream: true })) streamed = line.context;
  assert.equal(streamed, first.context);
  const second = await client.generate({ ...asked, prompt: 'And?', context: first.context });
  const chat = await client.chat({
    model: 'plain',
    options: asked.options,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: first.response ?? '' },
      { role: 'user', content: 'And?' },
    ],
  });
  assert.equal([second.response, second.prompt_eval_count], [chat.message.content, chat.prompt_eval_count]);
  const foreign = await failure(client.generate({ ...asked, prompt: 'And?', context: [1, 2, 3] }));
  assert.is(foreign.status_code, 400);
  assert.match(foreign.error, /^context must be/);
});

test('pictures are seen by a model with a projector, and refused by name by others', async () => {
  const picture = png(100, 60, (x, y) => [255, x * 2, y * 3]);
  const seen = [{ role: 'user', content: 'What?', images: [new Uint8Array(picture)] }];
  const ask = async (model: string, turns: typeof seen) => await client.chat({ model, messages: turns, options: FEW });
  const blind = await client.chat({ model: 'sees', messages: [{ role: 'user', content: 'What?' }], options: FEW });
  const { message, prompt_eval_count } = await ask('sees', seen);
  assert.ok(message.content.length > 0);
  assert.ok(prompt_eval_count > blind.prompt_eval_count);
  const prompted = await client.generate({
    model: 'sees',
    prompt: 'What?',
    images: [picture.toString('base64')],
    options: FEW,
  });
  assert.is(prompted.response, message.content);
  const refused = await failure(ask('plain', [{ role: 'user', content: 'What?', images: [new Uint8Array(picture)] }]));
  assert.is(refused.status_code, 400);
  assert.match(refused.error, /^messages\[0\]\.images\[0\]/);
  const damaged = [{ role: 'user', content: 'What?', images: [new Uint8Array(8)] }];
  assert.match((await failure(ask('sees', damaged))).error, /^messages\[0\]\.images\[0\] must be base64/);
});

test('embeddings of one and several texts', async () => {
  const { embeddings, prompt_eval_count, model } = await client.embed({ model: 'vectors', input: ['a b', 'c'] });
  assert.is(model, 'vectors');
  assert.equal(
    embeddings.map((vector) => vector.length),
    [64, 64],
  );
  assert.ok(prompt_eval_count > 0);
  const norm = Math.hypot(...(embeddings[0] ?? []));
  assert.ok(Math.abs(norm - 1) < 1e-5);
  const { embedding } = await client.embeddings({ model: 'vectors:latest', prompt: 'a b' });
  assert.ok(embedding.every((value, index) => Math.abs(value - (embeddings[0]?.[index] ?? 9)) < 1e-5));
  const long = await client.embed({ model: 'vectors', input: 'word '.repeat(2000) });
  assert.ok((long as { truncated_tokens?: number }).truncated_tokens);
  const refused = await failure(client.embed({ model: 'vectors', input: 'word '.repeat(2000), truncate: false }));
  assert.is(refused.status_code, 413);
  assert.is((await failure(client.embed({ model: 'plain', input: 'a' }))).status_code, 400);
});

test('without messages a model is loaded; keep_alive 0 unloads it, at once or after an answer', async () => {
  const isLoaded = async (): Promise<boolean> =>
    (await client.ps()).models.some(({ name }) => name === 'caller:latest');
  const load = { model: 'caller', messages: [], keep_alive: '10m' };
  assert.is((await client.chat(load)).done_reason, 'load');
  const [running] = (await client.ps()).models.filter(({ name }) => name === 'caller:latest');
  const left = Date.parse(String(running?.expires_at)) - Date.now();
  assert.ok(left > 60_000 && left <= 600_000, String(left));
  assert.ok((running as { context_length?: number } | undefined)?.context_length);
  assert.is((await client.chat({ ...load, keep_alive: 0 })).done_reason, 'unload');
  assert.is(await isLoaded(), false);
  assert.is((await client.generate({ model: 'caller', prompt: '' })).done_reason, 'load');
  assert.is(await isLoaded(), true);
  await client.chat({ model: 'caller', messages, keep_alive: 0, options: { num_predict: 2 } });
  await waitFor('the model to be unloaded', async () => !(await isLoaded()));
});

test('a model in use is unloaded after its answer', async () => {
  const isLoaded = async (): Promise<boolean> =>
    (await client.ps()).models.some(({ name }) => name === 'caller:latest');
  const endless = { model: 'caller', messages, stream: true as const, options: { num_predict: 5000 } };
  const stream = await client.chat(endless);
  const { value } = await stream[Symbol.asyncIterator]().next();
  const held = await holdEngines(daemon.client);
  assert.is((value as { done: boolean }).done, false);
  assert.is((await client.generate({ model: 'caller', prompt: '', keep_alive: 0 })).done_reason, 'unload');
  assert.is(await isLoaded(), true);
  stream.abort();
  held.release();
  await waitFor('the model to be unloaded', async () => !(await isLoaded()));
});

test('a copy stays when the first is deleted, and a deleted model is gone', async () => {
  assert.equal(await client.copy({ source: 'stored', destination: 'twin' }), { status: 'success' });
  const taken = await failure(client.copy({ source: 'plain', destination: 'twin' }));
  assert.is(taken.status_code, 400);
  await client.delete({ model: 'stored' });
  const names = await namesOf();
  assert.equal([names.includes('stored:latest'), names.includes('twin:latest')], [false, true]);
  const asked = { messages, options: { num_predict: 2 } };
  assert.ok((await client.chat({ ...asked, model: 'twin' })).done);
  const gone = await failure(client.chat({ ...asked, model: 'stored' }));
  assert.is(gone.status_code, 404);
  assert.match(gone.error, /^model 'stored' not found: /);
  await client.delete({ model: 'twin' });
  assert.is((await failure(client.delete({ model: 'twin' }))).status_code, 404);
  assert.is((await failure(client.delete({ model: 'builtin' }))).status_code, 400);
});

test('a name with settings is created, used, copied and deleted', async () => {
  const parameters = { num_predict: 3, stop: ['a', 'b'], num_batch: 64 };
  const made = { model: 'mario', from: 'plain:latest', system: 'You are Mario.', parameters };
  const statuses: string[] = [];
  for await (const { status } of await client.create({ ...made, stream: true })) statuses.push(status);
  assert.is(statuses.at(-1), 'success');
  assert.match(statuses[0] ?? '', /^num_batch is skipped/);
  const shown = await client.show({ model: 'mario' });
  assert.is(shown.system, 'You are Mario.');
  assert.is(shown.parameters, 'stop "a"\nstop "b"\nnum_predict 3');
  assert.is(shown.details.parent_model, 'plain');
  assert.is((await client.chat({ model: 'mario:latest', messages, options: { seed: 2 } })).eval_count <= 3, true);
  await client.copy({ source: 'mario', destination: 'luigi:v2' });
  assert.is((await client.show({ model: 'luigi:v2' })).system, 'You are Mario.');
  for (const model of ['mario', 'luigi:v2']) await client.delete({ model });
  assert.equal(
    (await namesOf()).filter((name) => /mario|luigi/.test(name)),
    [],
  );
  assert.is((await failure(client.create({ ...made, parameters: { mirror: 1 } }))).status_code, 400);
  assert.is((await failure(client.create({ model: 'plain', from: 'caller' }))).status_code, 400);
});

test.run();
