/** Reranking end to end: the official client, HTTP, gRPC, routing, an engine process, a model. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CohereClient, CohereClientV2, type Cohere } from 'cohere-ai';
import { connectTo, failureOf, type TestClient } from '../grpc/scripted.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';
import { ask, type Answer } from './ask.ts';
import { cohereFailure } from './cohere-failure.ts';

const RANKERS = ['ranker', 'prompted'] as const;
const QUERY = 'What runs under the bridge?';
const DOCUMENTS = ['Seven boats wait.', 'The river runs under the old bridge.', '', 'Grüße aus Köln! 你好'];

let home: Home;
let daemon: DaemonProcess;
let port: number;
let client: CohereClientV2;
let client1: CohereClient;
let grpc: TestClient;

test.before(async () => {
  home = await makeHome();
  for (const [file, name] of [
    ['tiny-rank', 'ranker'],
    ['tiny-rank-qwen3', 'prompted'],
    ['tiny-bert', 'bert'],
  ] as const) {
    const { stdout } = await svc(['model', 'add', modelPath(file), '--name', name], { home });
    if (file !== 'tiny-bert') assert.match(stdout, /it ranks documents: POST \/v1\/rerank/);
  }
  daemon = await spawnDaemon(home).settled();
  const { http, grpc: address } = await daemon.client.status();
  port = Number(String(http).split(':').at(-1));
  const options = { baseUrl: `http://127.0.0.1:${String(port)}`, token: 'none', maxRetries: 0 };
  client = new CohereClientV2(options);
  client1 = new CohereClient(options);
  grpc = connectTo(address ?? '');
});
test.after(async () => {
  grpc.close();
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

const post = (body: object): Promise<Answer> => ask({ port }, '/v1/rerank', { body });

/** Scores in the order of the documents. */
function scoresOf({ results }: Cohere.V2RerankResponse): number[] {
  return [...results].sort((a, b) => a.index - b.index).map(({ relevanceScore }) => relevanceScore);
}

for (const model of RANKERS) {
  test(`${model}: documents are sorted by score, and scores are the same over both APIs and one by one`, async () => {
    const whole = await client.rerank({ model, query: QUERY, documents: DOCUMENTS });
    const sorted = whole.results.map(({ relevanceScore }) => relevanceScore);
    assert.equal(
      sorted,
      [...sorted].sort((a, b) => b - a),
    );
    const scores = scoresOf(whole);
    assert.is(scores.length, DOCUMENTS.length);
    assert.ok(Math.max(...scores) - Math.min(...scores) > 0.05);

    const over = await grpc.unary('Inference/Rerank', { model, query: QUERY, documents: DOCUMENTS, top_n: 2 });
    assert.equal([over.model, over.provider, over.route.chosen], [model, 'local', 'local']);
    assert.equal(
      over.results.map(({ index }: { index: number }) => index),
      whole.results.slice(0, 2).map(({ index }) => index),
    );
    for (const [index, document] of DOCUMENTS.entries()) {
      const alone = await client.rerank({ model, query: QUERY, documents: [document] });
      const [score = NaN] = scoresOf(alone);
      const together = scores[index] ?? NaN;
      assert.ok(Math.abs(score - together) < 0.01 * (1 + Math.abs(together)), `${String(score)} ${String(together)}`);
    }
  });
}

test('the client of the first version gets the same order, with the documents', async () => {
  const [first, ...rest] = DOCUMENTS;
  const documents = [{ text: first ?? '' }, ...rest];
  const { results } = await client1.rerank({
    model: 'ranker',
    query: QUERY,
    documents,
    topN: 3,
    returnDocuments: true,
  });
  const whole = await client.rerank({ model: 'ranker', query: QUERY, documents: DOCUMENTS });
  assert.equal(
    results.map(({ index, document }) => [index, document?.text]),
    whole.results.slice(0, 3).map(({ index }) => [index, DOCUMENTS[index]]),
  );
  const error = await cohereFailure(client1.rerank({ model: 'absent', query: QUERY, documents: ['a'] }));
  assert.is(error.statusCode, 404);
});

test('usage counts the tokens of all pairs', async () => {
  const { usage } = (await post({ model: 'ranker', query: 'hello', documents: ['world', 'world'] })).json();
  // Twice [CLS] hello [SEP] world.
  assert.equal(usage, { prompt_tokens: 8, total_tokens: 8 });
});

test('refused: documents that are too long, and models that rank nothing', async () => {
  const documents = ['a', 'river '.repeat(600)];
  const long = await post({ model: 'ranker', query: 'x', documents });
  assert.is(long.status, 413);
  assert.match(long.json().message, /documents\[1\] and the query have 603 tokens, and the model takes at most 512/);
  const query = await post({ model: 'ranker', query: 'river '.repeat(600), documents: ['a'] });
  assert.is(query.status, 413);
  assert.match(query.json().message, /query has 602 tokens, and the model takes at most 512/);
  const cut = (await post({ model: 'ranker', query: 'x', documents, truncate: true })).json();
  assert.equal([cut.truncated_tokens, cut.results.length], [91, 2]);

  const short = await client.rerank({ model: 'ranker', query: 'x', documents, maxTokensPerDoc: 1 });
  assert.is(short.meta?.tokens?.inputTokens, 8);

  for (const model of ['bert', 'default', 'builtin']) {
    const error = await cohereFailure(client.rerank({ model, query: 'x', documents: ['a'] }));
    assert.is(error.statusCode, 400);
    assert.match((error.body as { message: string }).message, /is not a reranking model/);
  }
  const embedded = await ask({ port }, '/v1/embeddings', { body: { model: 'ranker', input: 'x' } });
  assert.equal([embedded.status, embedded.json().error.param], [400, 'model']);
  const messages = [{ role: 'user', content: 'x' }];
  const chat = await ask({ port }, '/v1/chat/completions', { body: { model: 'ranker', messages } });
  assert.match(chat.json().error.message, /ranker is a reranking model and cannot generate text/);
  const missing = await failureOf(grpc.unary('Inference/Rerank', { model: 'nobody', query: 'x', documents: ['a'] }));
  assert.is(missing.reason, 'MODEL_NOT_FOUND');
  const remote = await post({ model: 'openai/x', query: 'x', documents: ['a'] });
  assert.is(remote.status >= 400 && remote.status < 500, true);
});

test('a client that disconnects stops the work', async () => {
  const documents = Array.from({ length: 1000 }, (_, index) => `the river ${String(index)} runs `.repeat(200));
  const gone = new AbortController();
  const answer = fetch(`http://127.0.0.1:${String(port)}/rerank`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'prompted', query: 'x', documents }),
    signal: gone.signal,
  }).then(
    () => 'answered',
    () => 'gone',
  );
  await waitFor('the work', async () => (await daemon.client.health()).queue.active === 1);
  gone.abort();
  assert.is(await answer, 'gone');
  await waitFor('the engines to be idle', async () => {
    const { models, queue } = await daemon.client.health();
    return queue.active + queue.waiting === 0 && models.every(({ active, waiting }) => active + waiting === 0);
  });
  assert.is((await post({ model: 'prompted', query: 'x', documents: ['a'] })).status, 200);
});

test('the metrics count it', async () => {
  const { text } = await ask({ port }, '/metrics');
  assert.match(text, /svc_rerankings_total\{[^}]*model="ranker",outcome="ok"\} [1-9]/);
  assert.match(text, /svc_rerankings_total\{[^}]*outcome="CONTEXT_OVERFLOW"\} 2/);
});

test.run();
