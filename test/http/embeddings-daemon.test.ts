/** Embeddings end to end: the official client, HTTP, routing, an engine process, a model. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { BadRequestError } from 'openai';
import { connectTo, failureOf, type TestClient } from '../grpc/scripted.ts';
import { openAiAt } from '../support/openai.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';
import { failure } from './api-failure.ts';
import { ask } from './ask.ts';

let home: Home;
let daemon: DaemonProcess;
let port: number;
let client: OpenAI;
let grpc: TestClient;

test.before(async () => {
  home = await makeHome();
  await svc(['model', 'add', modelPath('tiny-bert'), '--name', 'bert'], { home });
  await svc(['model', 'add', modelPath('tiny-llama-embed'), '--name', 'causal'], { home });
  daemon = await spawnDaemon(home).settled();
  const { http, grpc: address } = await daemon.client.status();
  port = Number(String(http).split(':').at(-1));
  client = openAiAt(`http://127.0.0.1:${String(port)}`);
  grpc = connectTo(address ?? '');
});
test.after(async () => {
  grpc.close();
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

const TEXTS = ['The river runs under the old bridge.', 'Seven boats wait.', 'Grüße aus Köln! 你好'];
/** About a minute of work for `causal`, unless it is cancelled. */
const MANY = Array.from({ length: 500 }, (_, index) => `the river ${String(index)} runs `.repeat(250));

function cosine(a: readonly number[] = [], b: readonly number[] = []): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}

async function vectors(model: string, input: string[], encoding_format?: 'float' | 'base64'): Promise<number[][]> {
  const options = encoding_format === undefined ? {} : { encoding_format };
  const { data } = await client.embeddings.create({ model, input, ...options });
  return data.map(({ embedding }) => embedding);
}

const active = async (): Promise<number> => (await daemon.client.health()).queue.active;

async function idle(): Promise<void> {
  await waitFor('the engines to be idle', async () => {
    const { models, queue } = await daemon.client.health();
    return queue.active + queue.waiting === 0 && models.every(({ active, waiting }) => active + waiting === 0);
  });
}

for (const model of ['bert', 'causal']) {
  test(`${model}: vectors of texts are the same over both APIs and in both encodings`, async () => {
    const together = await vectors(model, TEXTS);
    const floats = await vectors(model, TEXTS, 'float');
    const over = await grpc.unary('Inference/Embed', { model, input: TEXTS.map((text) => ({ text })) });
    assert.equal([over.model, over.provider, over.route.chosen], [model, 'local', 'local']);
    assert.is(over.embeddings.length, 3);
    for (const [index, vector] of together.entries()) {
      assert.ok(Math.abs(cosine(vector, vector) - 1) < 1e-4);
      assert.ok(cosine(vector, floats[index]) > 0.9999);
      assert.ok(cosine(vector, over.embeddings[index].values) > 0.9999);
      const [alone] = await vectors(model, [TEXTS[index] ?? '']);
      assert.ok(cosine(vector, alone) > 0.999);
      for (const other of together.slice(index + 1)) assert.ok(cosine(vector, other) < 0.99);
    }
  });
}

test('usage counts the tokens, and an input of tokens gives the vector of its text', async () => {
  const text = await client.embeddings.create({ model: 'bert', input: 'hello world' });
  // [CLS] hello world [SEP]
  assert.equal(text.usage, { prompt_tokens: 4, total_tokens: 4 });
  const tokens = await client.embeddings.create({ model: 'bert', input: [101, 7592, 2088, 102] });
  assert.ok(cosine(text.data[0]?.embedding, tokens.data[0]?.embedding) > 0.9999);
  const ids = [101, 7592, 2088, 102];
  const over = await grpc.unary('Inference/Embed', { model: 'bert', input: [{ tokens: { ids } }] });
  assert.ok(cosine(text.data[0]?.embedding, over.embeddings[0].values) > 0.9999);
  assert.is(over.usage.input_tokens, 4);
});

test('refused: inputs that are too long, the wrong kind of model, other dimensions', async () => {
  const long = await failure(client.embeddings.create({ model: 'bert', input: ['a', 'river '.repeat(600)] }));
  assert.equal([long.status, long.code], [400, 'context_length_exceeded']);
  assert.match(long.message, /input\[1\] has 602 tokens, and the model takes at most 512/);
  const writer = await failure(client.embeddings.create({ model: 'default', input: 'a' }));
  assert.instance(writer, BadRequestError);
  assert.is(writer.param, 'model');
  const chat = client.chat.completions.create({ model: 'bert', messages: [{ role: 'user', content: 'x' }] });
  assert.instance(await failure(chat), BadRequestError);
  assert.is(
    (await failure(client.embeddings.create({ model: 'bert', input: 'a', dimensions: 32 }))).param,
    'dimensions',
  );
  assert.is((await vectors('bert', ['a']))[0]?.length, 64);
  const missing = await failureOf(grpc.unary('Inference/Embed', { model: 'nobody', input: [{ text: 'a' }] }));
  assert.is(missing.reason, 'MODEL_NOT_FOUND');
});

test('a client that disconnects stops the work, over both APIs', async () => {
  const gone = new AbortController();
  const answer = failure(client.embeddings.create({ model: 'causal', input: MANY }, { signal: gone.signal }));
  await waitFor('the work', async () => (await active()) === 1);
  gone.abort();
  await answer;
  await idle();

  const input = MANY.map((text) => ({ text }));
  const late = await failureOf(
    grpc.unary('Inference/Embed', { model: 'causal', input }, { deadline: Date.now() + 300 }),
  );
  // DEADLINE_EXCEEDED
  assert.is(late.status, 4);
  await idle();
});

test('a long request does not block a short one', async () => {
  const gone = new AbortController();
  const long = failure(client.embeddings.create({ model: 'causal', input: MANY }, { signal: gone.signal }));
  await waitFor('the work', async () => (await active()) === 1);
  assert.is((await vectors('causal', ['short'])).length, 1);
  assert.is(await active(), 1, 'the long one goes on');
  gone.abort();
  await long;
  await idle();
});

test('health, ps and metrics report embeddings', async () => {
  const { models } = await daemon.client.health();
  const bert = models.find(({ id }) => id === 'bert');
  assert.equal([bert?.state, bert?.context_length, bert?.kv_cells_total], ['loaded', 512, null]);
  const { code, stdout } = await svc(['ps'], { home });
  assert.is(code, 0);
  assert.match(stdout, /bert +loaded/);
  const { text } = await ask({ port }, '/metrics');
  assert.match(text, /^svc_embeddings_total\{provider="local",model="bert",outcome="ok"\} [1-9]/m);
  assert.match(text, /^svc_embeddings_total\{provider="local",model="causal",outcome="CANCELLED"\} [1-9]/m);
  assert.match(text, /^svc_input_tokens_total\{provider="local",model="causal"\} [1-9]/m);
  assert.not.match(text, /svc_time_to_first_token_seconds_count\{[^}]*bert/);
});

test('no input appears in the log', () => {
  const log = JSON.stringify([daemon.log, daemon.stray]);
  for (const word of ['Seven boats', 'hello world', 'the river 1']) assert.not.ok(log.includes(word));
});

test.run();
