/** Embeddings and reranking of providers end to end: official clients, a real daemon, routing, fake providers on loopback sockets. */
import { join } from 'node:path';
import { Ollama } from 'ollama';
import OpenAI, { APIError, APIUserAbortError } from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import type { KeyLimits, KeyScope } from '../../src/protocol/keys.ts';
import { said } from '../backends/cloud/cloud-suite.ts';
import { geminiVectors, lengthScores, openAiVectors, vectorOf } from '../backends/cloud/embedding-support.ts';
import { startUpstream, type Script, type Upstream } from '../backends/cloud/upstream.ts';
import { connectTo, failureOf as grpcFailure, type TestClient } from '../grpc/scripted.ts';
import { ask } from './ask.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { failureOf } from '../support/failure.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { openAiAt } from '../support/openai.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const TEXTS = ['The river runs.', 'Seven boats wait.', 'Grüße aus Köln! 你好'];
/** Characters, which the fake provider counts as tokens. */
const TOKENS = TEXTS.join('').length;

let home: Home;
let near: Upstream;
let far: Upstream;
let daemon: DaemonProcess;
let url: string;
let port: number;
let address: string;
let client: OpenAI;
let grpc: TestClient;

const vectors: Script = (turn) => {
  if (turn.request.method === 'GET') turn.json(200, {});
  else if (turn.request.path.startsWith('/v1beta/')) geminiVectors(turn);
  else if (turn.request.path.endsWith('/rerank')) return lengthScores(turn);
  else return openAiVectors(turn);
};

test.before(async () => {
  home = await makeHome();
  [near, far] = await Promise.all([startUpstream(), startUpstream()]);
  const at = (upstream: Upstream): { base_url: string } => ({ base_url: `${upstream.url}/v1` });
  const config = {
    providers: {
      near: at(near),
      far: { ...at(far), default_model: 'chats', embedding_model: 'm' },
      broken: at(near),
      metered: { ...at(near), tokens_per_day: 1 },
      goo: { kind: 'gemini', base_url: `${near.url}/v1beta` },
      claude: { kind: 'anthropic', base_url: near.url },
      farm: { base_url: [near, far].map((upstream) => `${upstream.url}/v1`) },
    },
    policies: {
      same: { candidates: ['near/m', 'claude/n', 'far/m'] },
      patient: { candidates: ['near/m', 'far/m'], fallback_on: ['overloaded'] },
      mixed: { candidates: ['near/m', 'far/n'] },
    },
  };
  configure(home, config);
  daemon = await spawnDaemon(home).settled();
  const status = await daemon.client.status();
  url = `http://${String(status.http)}`;
  port = Number(new URL(url).port);
  address = String(status.grpc);
  client = openAiAt(url);
  grpc = connectTo(address);
});
test.after(async () => {
  grpc.close();
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await Promise.all([near.close(), far.close()]);
  await home.remove();
  assert.is(code, 0);
});
test.before.each(() => {
  near.script(vectors);
  far.script(vectors);
});

const expected = (dimensions?: number): number[][] => TEXTS.map((text) => Array.from(vectorOf(text, dimensions)));
const posts = (upstream: Upstream): number => upstream.asked.filter(({ method }) => method === 'POST').length;

async function embed(model: string, options: Partial<OpenAI.EmbeddingCreateParams> = {}): Promise<number[][]> {
  const { data } = await client.embeddings.create({ model, input: TEXTS, ...options });
  return data.map(({ embedding }) => embedding);
}
const refused = (model: string, options: Partial<OpenAI.EmbeddingCreateParams> = {}): Promise<APIError> =>
  failureOf(APIError, embed(model, options));

/** Runs `ask` and returns the number of requests that each provider got meanwhile. */
async function counted(ask: () => Promise<unknown>): Promise<[near: number, far: number]> {
  const before = [posts(near), posts(far)] as const;
  await ask();
  return [posts(near) - before[0], posts(far) - before[1]];
}

async function addClient(name: string, scope: KeyScope, limits: KeyLimits): Promise<OpenAI> {
  const { key } = await addKey(join(home.dir, 'data', 'keys.json'), name, scope, limits);
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
}

test("OpenAI's client gets a provider's vectors in both encodings, shortened on request, with the usage", async () => {
  const whole = await client.embeddings.create({ model: 'near/org/m', input: TEXTS });
  assert.equal(
    whole.data.map(({ embedding }) => embedding),
    expected(),
  );
  assert.equal([whole.model, whole.usage], ['org/m-2026', { prompt_tokens: TOKENS, total_tokens: TOKENS }]);
  assert.equal(near.asked.at(-1)?.body.model, 'org/m');
  assert.equal(await embed('near/m', { encoding_format: 'float' }), expected());
  assert.equal(await embed('near/m', { dimensions: 3 }), expected(3));
  assert.equal((await embed('near/m', { input: 'one' })).length, 1);
  assert.equal(await embed('m', { route: 'provider:near' } as object), expected());
});

test("Ollama's clients and gRPC get them, too", async () => {
  const ollama = new Ollama({ host: url });
  const { embeddings, prompt_eval_count, model } = await ollama.embed({ model: 'near/m', input: TEXTS });
  assert.equal([embeddings, prompt_eval_count, model], [expected(), TOKENS, 'near/m']);
  const { embedding } = await ollama.embeddings({ model: 'near/m:latest', prompt: TEXTS[0] ?? '' });
  assert.equal(embedding, expected()[0]);

  const input = TEXTS.map((text) => ({ text }));
  const answer = await grpc.unary('Inference/Embed', { model: 'near/m', input, dimensions: 4 });
  assert.equal(
    answer.embeddings.map(({ values }: { values: number[] }) => values),
    expected(4),
  );
  assert.equal([answer.model, answer.provider, answer.route.chosen], ['m-2026', 'near', 'near']);
  assert.is(Number(answer.usage.input_tokens), TOKENS);
});

test("Gemini's vectors come in batches; a provider without embeddings refuses by name", async () => {
  const input = Array.from({ length: 230 }, (_, index) => `text ${String(index)}`);
  const [asked] = await counted(async () => {
    const all = await embed('goo/gemini-embedding-001', { input });
    assert.equal(
      all,
      input.map((text) => Array.from(vectorOf(text))),
    );
  });
  assert.is(asked, 3);
  const [none] = await counted(async () => {
    const error = await refused('claude/m');
    assert.equal([error.status, error.param], [400, 'model']);
    assert.match(error.message, /claude: its API has no embeddings/);
    assert.match(
      (await refused('x', { route: 'provider:near', model: 'default' } as object)).message,
      /no default model/,
    );
  });
  assert.is(none, 0);
});

test('documents are ranked over HTTP and gRPC; fields that a provider lacks are refused by name', async () => {
  const body = { model: 'near/m', query: 'boats', documents: TEXTS };
  const { status, ...answer } = await ask({ port }, '/v1/rerank', { body: { ...body, top_n: 2 } });
  const { results, usage, model } = answer.json();
  assert.equal([status, model, usage.total_tokens], [200, 'm-2026', TOKENS]);
  const best = [
    { index: 2, relevance_score: 18 },
    { index: 1, relevance_score: 17 },
  ];
  assert.equal(results, best);
  const over = await grpc.unary('Inference/Rerank', { ...body, model: 'same', top_n: 2 });
  assert.equal([over.provider, over.results.map(({ index }: { index: number }) => index)], ['near', [2, 1]]);
  const [none] = await counted(async () => {
    for (const [more, message] of [
      [{ max_tokens_per_doc: 5 }, /^max_tokens_per_doc is supported only for local models/],
      [{ model: 'goo/m' }, /^goo: its API has no reranking/],
    ] as const) {
      const refusal = await ask({ port }, '/v2/rerank', { body: { ...body, ...more } });
      assert.is(refusal.status, 400);
      assert.match(refusal.json().message, message);
    }
  });
  assert.is(none, 0);
  near.script((turn) => turn.json(200, { results: [{ index: 0, relevance_score: 'secret' }] }));
  const broken = await ask({ port }, '/rerank', { body });
  assert.is(broken.status, 502);
  assert.not.match(broken.text, 'secret');
});

test("a provider's model for embeddings answers requests that name none, and is listed as one", async () => {
  const route = 'provider:far';
  const [, answers] = await counted(async () => {
    assert.equal(await embed('default', { route } as object), expected());
  });
  assert.equal([answers, far.asked.at(-1)?.body.model], [1, 'm']);
  const listed = (await client.models.list()).data as unknown as { id: string; capabilities: string[] }[];
  const found = listed.filter(({ id }) => id.startsWith('far/')).map(({ id, capabilities }) => [id, capabilities]);
  assert.equal(found, [
    ['far/chats', ['chat']],
    ['far/m', ['embedding']],
  ]);
});

test('two thousand vectors of a thousand numbers arrive', async () => {
  const input = Array.from({ length: 2048 }, (_, index) => `text ${String(index)}`);
  const all = await embed('near/m', { input, dimensions: 1024 });
  assert.equal([all.length, all.at(-1)], [2048, Array.from(vectorOf('text 2047', 1024))]);
});

test('a failure that may pass is retried; then a policy falls back to the same model elsewhere', async () => {
  let failures = 0;
  near.script((turn) => (++failures === 1 ? turn.json(500, said('oops')) : vectors(turn)));
  assert.equal(await counted(() => embed('near/m')), [2, 0]);

  near.script((turn) => turn.json(500, said('oops')));
  const [tries, answers] = await counted(async () => assert.equal(await embed('same'), expected()));
  assert.ok(tries >= 1 && answers === 1, `${String(tries)}, ${String(answers)}`);
  near.script((turn) => turn.json(401, said('no', { code: 'invalid_api_key' })));
  assert.equal(await counted(() => embed('same')), [1, 1]);
  near.script((turn) => turn.json(429, said('slow down'), { 'retry-after': '60' }));
  assert.equal(await counted(() => embed('patient')), [1, 1]);
});

test('without an allowed fallback the error of the provider is the answer', async () => {
  near.script((turn) => turn.json(401, said('no', { code: 'invalid_api_key' })));
  const [, others] = await counted(async () => {
    for (const model of ['near/m', 'patient', 'mixed'])
      assert.match((await refused(model)).message, /near: the provider rejected/);
  });
  assert.is(others, 0);
  near.script((turn) => turn.json(429, said('slow down'), { 'retry-after': '60' }));
  const busy = await refused('mixed');
  assert.equal([busy.status, (busy.headers as unknown as Headers).get('retry-after')], [429, '60']);
});

test('an answer that is none is an error, and nothing of it is shown', async () => {
  for (const data of [[], [{ index: 0, embedding: [1, 'secret'] }], [{ index: 1, embedding: [1] }], 'secret']) {
    near.script((turn) => turn.json(200, { data }));
    // Five failures in a row open the circuit of a provider, and each is retried.
    const { status, message } = await refused('broken/m', { input: 'a' });
    assert.ok(status === 502 || status === 503, message);
    assert.not.match(message, 'secret');
  }
});

test('a deadline and a cancelled call end the work at the provider', async () => {
  far.script(() => undefined);
  const late = await refused('far/m', { timeout_ms: 100 } as object);
  assert.is(late.status, 504);
  await waitFor('the connection to close', () => far.connections() === 0);

  const leaving = new AbortController();
  const left = failureOf(
    APIUserAbortError,
    client.embeddings.create({ model: 'far/m', input: 'a' }, { signal: leaving.signal }),
  );
  await waitFor('the request', () => far.connections() === 1);
  leaving.abort();
  await left;
  await waitFor('the connection to close', () => far.connections() === 0);

  const input = [{ text: 'a' }];
  const call = grpc.unary('Inference/Embed', { model: 'far/m', input }, { deadline: Date.now() + 200 });
  assert.is((await grpcFailure(call)).status, 4);
  await waitFor('the connection to close', () => far.connections() === 0);
  await waitFor('the requests to end', async () => {
    const { queue } = await daemon.client.health();
    return queue.active + queue.waiting === 0;
  });
});

test('a cluster goes on if one of its servers is broken', async () => {
  near.script((turn) => (turn.request.method === 'GET' ? turn.json(200, {}) : turn.reset()));
  for (let n = 0; n < 6; n += 1) assert.equal(await embed('farm/m'), expected());
});

test('budgets, quotas and lists of models hold, and the ledger and the metrics count', async () => {
  assert.equal(await embed('metered/m'), expected());
  const spent = await refused('metered/m');
  assert.is(spent.status, 429);
  assert.match(spent.message, /budget of 1 tokens per day/);

  const limited = await addClient('limited', 'inference', { tokens_per_day: TOKENS, models: ['near/m'] });
  const embedAs = (model: string): Promise<unknown> => limited.embeddings.create({ model, input: TEXTS });
  assert.equal((await failureOf(APIError, embedAs('far/m'))).status, 404);
  await embedAs('near/m');
  const used = await failureOf(APIError, embedAs('near/m'));
  assert.equal(used.status, 429);
  assert.match(used.message, /used up its quota/);
  // Such a key may use the provider's default for chats, but no other model of it.
  const chats = await addClient('chats', 'inference', { models: ['far/chats'] });
  const nameless = { model: 'default', input: 'a', route: 'provider:far' };
  assert.equal((await failureOf(APIError, chats.embeddings.create(nameless))).status, 404);
  const embeds = await addClient('embeds', 'inference', { models: ['far/m'] });
  assert.is((await embeds.embeddings.create(nameless)).data.length, 1);
  const local = await addClient('local', 'local', {});
  const forbidden = failureOf(APIError, local.embeddings.create({ model: 'near/m', input: 'a' }));
  assert.is((await forbidden).status, 403);

  const { stdout } = await svc(['usage', '--by', 'key', '--json'], { home });
  const { usage } = JSON.parse(stdout) as { usage: { key: string; input_tokens: number; output_tokens: number }[] };
  const row = usage.find(({ key }) => key === 'limited');
  assert.equal([row?.input_tokens, row?.output_tokens], [TOKENS, 0]);
  const headers = { authorization: `Bearer ${limited.apiKey}` };
  const page = await (await fetch(`${url}/metrics`, { headers })).text();
  assert.match(page, /^svc_embeddings_total\{provider="metered",model="m-2026",outcome="ok"\} 1$/m);
  assert.match(
    page,
    new RegExp(`^svc_input_tokens_total\\{provider="metered",model="m-2026"\\} ${String(TOKENS)}$`, 'm'),
  );
});

test.run();
