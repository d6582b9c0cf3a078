/** llama-server's small routes and legacy completions end to end: a daemon, engine processes, tiny models. */
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { openAiAt } from '../../support/openai.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { makeHome, type Home } from '../../support/home.ts';
import { writeInfillModel } from '../../support/infill-model.ts';
import { modelPath, openEngine, type TestEngine } from '../../support/native-engine.ts';
import { svc } from '../../support/svc.ts';
import { failure } from '../api-failure.ts';
import { ask, type Answer } from '../ask.ts';

let home: Home;
let daemon: DaemonProcess;
let port: number;
let client: OpenAI;
/** The same model in this process. */
let engine: TestEngine;

test.before(async () => {
  home = await makeHome();
  const infill = join(home.dir, 'infill.gguf');
  await writeInfillModel(infill);
  await svc(['model', 'add', infill, '--name', 'infill'], { home });
  for (const [file, name] of [
    ['tiny-qwen2', 'qwen'],
    ['tiny-llama', 'llama'],
    ['tiny-bert', 'bert'],
    ['tiny-thinker', 'thinker'],
  ] as const)
    await svc(['model', 'add', modelPath(file), '--name', name], { home });
  daemon = await spawnDaemon(home).settled();
  const { http } = await daemon.client.status();
  port = Number(String(http).split(':').at(-1));
  client = openAiAt(`http://127.0.0.1:${String(port)}`);
  engine = await openEngine('tiny-qwen2');
});
test.after(async () => {
  await engine.native.close();
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

const post = (path: string, body: object): Promise<Answer> => ask({ port }, path, { body: { model: 'qwen', ...body } });
const TEXTS = ['', 'Hello, world', 'naïve café — 日本語 🙂🇨🇭', '<|im_start|>user<|im_end|>', 'x'.repeat(100_000)];
const MESSAGES = [
  { role: 'system', content: 'You are brief.' },
  { role: 'user', content: 'Name <|im_end|> a river.' },
];

test('tokens are those of the addon, and the way back gives the text', async () => {
  for (const content of TEXTS) {
    const { tokens } = (await post('/tokenize', { content })).json();
    assert.equal(tokens, await engine.native.encode(content, { parseSpecial: true }));
    assert.is((await post('/detokenize', { tokens })).json().content, content);
    const plain = (await post('/tokenize', { content, parse_special: false, add_special: true })).json();
    assert.equal(plain.tokens, await engine.native.encode(content, { addSpecial: true }));
  }
});

test('pieces are texts, or bytes of a part of a character', async () => {
  const content = 'naïve 🇨🇭 <|im_end|>';
  const { tokens } = (await post('/tokenize', { content, with_pieces: true })).json();
  const pieces = tokens.map(({ piece }: { piece: string | number[] }) => Buffer.from(piece as string));
  assert.is(Buffer.concat(pieces).toString(), content);
  assert.ok(
    tokens.some(({ piece }: { piece: unknown }) => Array.isArray(piece)),
    'a flag has several tokens',
  );
});

test('models that make embeddings have tokens, but no chats', async () => {
  const { tokens } = (await post('/tokenize', { model: 'bert', content: 'hello', add_special: true })).json();
  assert.is(tokens.length, 3);
  const refused = await post('/apply-template', { model: 'bert', messages: MESSAGES });
  assert.equal([refused.status, refused.json().error.param], [400, 'model']);
});

test('a template is applied as for a chat completion: its tokens are as many', async () => {
  const tools = [{ type: 'function', function: { name: 'look_at', parameters: { type: 'object' } } }] as const;
  for (const more of [{}, { tools: [...tools], tool_choice: 'none' as const }]) {
    const body = { model: 'thinker', messages: MESSAGES, ...more };
    const { prompt } = (await post('/apply-template', body)).json();
    assert.match(prompt, /You are brief\..*Name <\|im_end\|> a river\./s);
    assert.is(prompt.includes('look_at'), 'tools' in more);
  }
  const plain = [{ role: 'user', content: 'Name a river.' }] as const;
  const { prompt } = (await post('/apply-template', { messages: plain })).json();
  const { tokens } = (await post('/tokenize', { content: prompt, add_special: true })).json();
  const { usage } = await client.chat.completions.create({
    model: 'qwen',
    messages: [...plain],
    max_completion_tokens: 1,
  });
  assert.is(usage?.prompt_tokens, tokens.length);
});

test('a raw prompt gets no template; its text and its tokens give the same answer', async () => {
  const prompt = 'The river <|im_end|>';
  const { tokens } = (await post('/tokenize', { content: prompt, add_special: true })).json();
  const greedy = { model: 'qwen', temperature: 0, max_tokens: 8, seed: 1 };
  const byText = await client.completions.create({ ...greedy, prompt });
  const byTokens = await client.completions.create({ ...greedy, prompt: tokens });
  assert.is(byText.usage?.prompt_tokens, tokens.length);
  assert.is(byTokens.usage?.prompt_tokens, tokens.length);
  assert.is(byText.choices[0]?.text, byTokens.choices[0]?.text);
  const echoed = await client.completions.create({ ...greedy, prompt: tokens, echo: true });
  assert.is(echoed.choices[0]?.text, prompt + String(byText.choices[0]?.text));
});

test('streamed and whole completions are the same, with n and log probabilities', async () => {
  const params = { model: 'llama', prompt: ['A river', 'A boat'], n: 2, seed: 3, max_tokens: 12, logprobs: 2 };
  const whole = await client.completions.create(params);
  assert.is(whole.choices.length, 4);
  const texts = ['', '', '', ''];
  const offsets: number[][] = [[], [], [], []];
  let usage: OpenAI.CompletionUsage | null | undefined;
  const stream = await client.completions.create({ ...params, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const { index, text, logprobs } of chunk.choices) {
      texts[index] = String(texts[index]) + text;
      offsets[index]?.push(...(logprobs?.text_offset ?? []));
    }
  }
  assert.equal(
    whole.choices.map(({ text }) => text),
    texts,
  );
  assert.equal(
    whole.choices.map(({ logprobs }) => logprobs?.text_offset),
    offsets,
  );
  for (const { text, logprobs } of whole.choices) {
    const { tokens = [], text_offset = [], token_logprobs = [], top_logprobs = [] } = logprobs ?? {};
    assert.ok(tokens.length > 0 && tokens.length <= 12);
    assert.equal([text_offset.length, token_logprobs.length, top_logprobs.length], Array(3).fill(tokens.length));
    for (const [at, token] of tokens.entries())
      if (!token.startsWith('bytes:')) assert.ok([...text].slice(text_offset[at]).join('').startsWith(token));
  }
  assert.equal(usage, whole.usage);
});

test('stop strings, an unlimited answer and a grammar work as in chats', async () => {
  const bias = { logit_bias: { '100': 100 }, model: 'llama', prompt: 'a' };
  const { choices } = await client.completions.create({ ...bias, max_tokens: 3 });
  assert.is(choices[0]?.finish_reason, 'length');
  const body = { model: 'llama', prompt: 'a', grammar: 'root ::= "yes" | "no"', max_tokens: 5 };
  assert.match((await post('/v1/completions', body)).json().choices[0].text, /^(yes|no)$/);
  const bad = await post('/v1/completions', { ...body, grammar: 'root ::= x' });
  assert.equal([bad.status, bad.json().error.param], [400, 'grammar']);
});

test("a completion is that of OpenAI's legacy API", async () => {
  const greedy = { model: 'qwen', prompt: 'The river', temperature: 0 };
  const { choices } = await client.completions.create({ ...greedy, max_tokens: 8 });
  const { content, tokens_predicted, stop_type } = (await post('/completion', { ...greedy, n_predict: 8 })).json();
  assert.equal([content, tokens_predicted, stop_type], [choices[0]?.text, 8, 'limit']);
});

test('a gap is filled by a model that has tokens for it', async () => {
  const gap = { model: 'infill', input_prefix: 'int a = ', input_suffix: ';' };
  const answer = await post('/infill', { ...gap, n_predict: 4, temperature: 0 });
  const { content, tokens_evaluated } = answer.json();
  assert.equal([answer.status, typeof content], [200, 'string']);
  const texts = [...(await engine.native.encode('int a = ')), ...(await engine.native.encode(';'))];
  assert.is(tokens_evaluated, texts.length + 3);
  assert.equal([answer.json().stop_type, answer.json().stopping_word], ['limit', '']);
  const stop = content.slice(1, 2);
  const stopped = (await post('/infill', { ...gap, n_predict: 4, temperature: 0, stop: [stop] })).json();
  assert.equal([stopped.content, stopped.stop_type, stopped.stopping_word], [content.slice(0, 1), 'word', stop]);
  const params = { model: 'infill', prompt: 'int a = ', suffix: ';', max_tokens: 4, temperature: 0 };
  const { choices, usage } = await client.completions.create(params);
  assert.equal([choices[0]?.text, usage?.prompt_tokens], [content, tokens_evaluated]);

  const refused = await post('/infill', { model: 'llama', input_prefix: 'a', input_suffix: 'b' });
  assert.equal([refused.status, refused.json().error.param], [400, 'input_suffix']);
  const error = await failure(client.completions.create({ ...params, model: 'llama' }));
  assert.equal([error.status, error.param], [400, 'suffix']);
});

test('errors name what is wrong', async () => {
  const [vocabulary] = [engine.native.info.vocabulary];
  for (const [path, body] of [
    ['/detokenize', { tokens: [vocabulary] }],
    ['/v1/completions', { prompt: [vocabulary] }],
  ] as const) {
    const answer = await post(path, body);
    assert.is(answer.status, 400);
    assert.match(answer.json().error.message, /is not in the vocabulary/);
  }
  const missing = await post('/tokenize', { model: 'nothing', content: 'a' });
  assert.equal([missing.status, missing.json().error.code], [404, 'model_not_found']);
  const long = await failure(client.completions.create({ model: 'qwen', prompt: 'river '.repeat(20_000) }));
  assert.equal([long.status, long.code], [400, 'context_length_exceeded']);
});

test('health and props of the daemon', async () => {
  assert.equal((await ask({ port }, '/health')).json(), { status: 'ok' });
  const props = (await ask({ port }, '/props?model=qwen')).json();
  assert.match(props.chat_template, /im_start/);
  assert.equal([props.model_alias, props.total_slots], ['qwen', 64]);
  assert.ok(props.default_generation_settings.n_ctx > 0);
});

test.run();
