/**
 * `POST /v1/rerank`, `/v2/rerank` and `/rerank`: Cohere's client, the shapes of Jina's and llama-server's, invalid
 * requests.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CohereClient, CohereClientV2 } from 'cohere-ai';
import { SvcError } from '../../src/protocol/errors.ts';
import { waitFor } from '../support/wait.ts';
import { ask, type Answer } from './ask.ts';
import { cohereFailure } from './cohere-failure.ts';
import { aborted, FINISH, scored, START, startScripted, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
let v1: CohereClient;
let v2: CohereClientV2;
test.before(async () => {
  listener = await startScripted();
  const options = { baseUrl: listener.url, token: 'none', maxRetries: 0 };
  v1 = new CohereClient(options);
  v2 = new CohereClientV2(options);
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.rerankScript = scored;
  listener.backend.rerankRequests.length = 0;
});

const post = (body: object, path = '/rerank'): Promise<Answer> => ask({ port: listener.port }, path, { body });
const DOCUMENTS = ['two', 'seven', 'one'];

test('the official client of the first version, with its documents', async () => {
  const answer = await v1.rerank({
    model: 'tiny',
    query: 'how long?',
    documents: ['two', { text: 'seven' }, 'one'],
    returnDocuments: true,
    rankFields: ['text'],
    maxChunksPerDoc: 10,
  });
  assert.match(answer.id ?? '', /^[0-9a-f]{32}$/);
  assert.equal(answer.results, [
    { index: 1, relevanceScore: 5, document: { text: 'seven' } },
    { index: 0, relevanceScore: 3, document: { text: 'two' } },
    { index: 2, relevanceScore: 3, document: { text: 'one' } },
  ]);
  assert.is(answer.meta?.apiVersion?.version, '1');
  assert.is(answer.meta?.tokens?.inputTokens, 7);
  assert.equal(listener.backend.rerankRequests, [{ model: 'tiny', query: 'how long?', documents: DOCUMENTS }]);
});

test('the official client of the second version, without documents', async () => {
  const answer = await v2.rerank({ model: 'tiny', query: 'how long?', documents: DOCUMENTS, topN: 2 });
  assert.equal(answer.results, [
    { index: 1, relevanceScore: 5 },
    { index: 0, relevanceScore: 3 },
  ]);
  assert.is(answer.meta?.apiVersion?.version, '2');
});

test('the shape of Jina and llama-server', async () => {
  const body = { model: 'tiny', query: 'x', documents: DOCUMENTS, top_n: 1, return_documents: true };
  for (const path of ['/rerank', '/v1/rerank', '/v2/rerank']) {
    const answer = await post(body, path);
    assert.is(answer.status, 200);
    const { object, model, results, usage } = answer.json();
    assert.equal([object, model, usage], ['list', 'tiny', { prompt_tokens: 7, total_tokens: 7 }]);
    assert.equal(results, [{ index: 1, relevance_score: 5, document: { text: 'seven' } }]);
  }
});

test('extensions reach the backend, empty values do not, and top_n may be more than there are', async () => {
  const body = { query: 'x', documents: ['a'], truncate: true, keep_alive: '5m', context_length: 100, unknown: 1 };
  assert.is((await post({ ...body, max_tokens_per_doc: 4096, top_n: 1000 })).json().results.length, 1);
  for (const model of ['default', ''])
    await post({ model, query: 'x', documents: ['a', ''], top_n: null, return_documents: null });
  assert.equal(listener.backend.rerankRequests, [
    {
      query: 'x',
      documents: ['a'],
      truncate: true,
      keep_alive_seconds: 300,
      context_length: 100,
      max_document_tokens: 4096,
    },
    { query: 'x', documents: ['a', ''] },
    { query: 'x', documents: ['a', ''] },
  ]);
});

test('the tokens that were cut off are reported', async () => {
  listener.backend.rerankScript = async function* () {
    yield START;
    yield { type: 'scores', scores: [1] };
    const usage = { input_tokens: 9, output_tokens: 0, cached_tokens: 0, truncated_tokens: 4 };
    yield { ...FINISH, usage };
  };
  assert.is((await post({ query: 'x', documents: ['a'], truncate: true })).json().truncated_tokens, 4);
});

test('an invalid field is refused by name, and no backend is called', async () => {
  const good = { query: 'x', documents: ['a'] };
  const cases: readonly (readonly [object, string | null])[] = [
    [[], null],
    [{ documents: ['a'] }, 'query'],
    [{ ...good, query: '' }, 'query'],
    [{ ...good, query: 7 }, 'query'],
    [{ query: 'x' }, 'documents'],
    [{ ...good, documents: [] }, 'documents'],
    [{ ...good, documents: 'a' }, 'documents'],
    [{ ...good, documents: { text: 'a' } }, 'documents'],
    [{ ...good, documents: Array(1001).fill('a') }, 'documents'],
    [{ ...good, documents: Array(10_000).fill('a') }, 'documents'],
    [{ ...good, documents: ['a', 7] }, 'documents[1]'],
    [{ ...good, documents: ['a', null] }, 'documents[1]'],
    [{ ...good, documents: [{ title: 'a' }] }, 'documents[0]'],
    [{ ...good, documents: [{ text: 7 }] }, 'documents[0]'],
    [{ ...good, top_n: 0 }, 'top_n'],
    [{ ...good, top_n: 1.5 }, 'top_n'],
    [{ ...good, top_n: '1' }, 'top_n'],
    [{ ...good, return_documents: 1 }, 'return_documents'],
    [{ ...good, rank_fields: ['title', 'text'] }, 'rank_fields'],
    [{ ...good, max_tokens_per_doc: 0 }, 'max_tokens_per_doc'],
    [{ ...good, truncate: 'END' }, 'truncate'],
  ];
  for (const [body, param] of cases) {
    const answer = await post(body);
    const what = JSON.stringify(body).slice(0, 60);
    assert.is(answer.status, 400, what);
    const { error, message } = answer.json();
    assert.equal([error.code, error.param], ['invalid_request', param], what);
    assert.is(message, error.message);
  }
  assert.equal(listener.backend.rerankRequests, []);
});

test('a file path as the model, and a GET, are refused', async () => {
  assert.is((await post({ model: 'file:/etc/passwd', query: 'x', documents: ['a'] })).status, 404);
  const answer = await ask({ port: listener.port }, '/v2/rerank');
  assert.equal([answer.status, answer.headers.allow], [405, 'POST']);
});

test('an error is a status that the client understands, even after the first scores', async () => {
  listener.backend.rerankScript = async function* () {
    yield START;
    yield { type: 'scores', scores: [1] };
    throw new SvcError('BUSY', 'too many requests');
  };
  const asked = { model: 'tiny', query: 'x', documents: ['a', 'b'] };
  for (const client of [v1, v2]) {
    const error = await cohereFailure(client.rerank(asked, { maxRetries: 0 }));
    assert.is(error.statusCode, 429);
    assert.match((error.body as { message: string }).message, /too many requests/);
  }
});

test('a client that disconnects ends the work', async () => {
  let reason: unknown;
  listener.backend.rerankScript = async function* (_, { signal }) {
    yield START;
    yield { type: 'scores', scores: [1] };
    reason = await aborted(signal);
    throw reason;
  };
  const gone = new AbortController();
  const asked = fetch(`${listener.url}/rerank`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: 'x', documents: ['a', 'b'] }),
    signal: gone.signal,
  });
  const whole = asked.then(
    () => 'answered',
    () => 'gone',
  );
  await waitFor('the work', () => listener.router.active === 1);
  gone.abort();
  assert.is(await whole, 'gone');
  await waitFor('the abort', () => reason !== undefined);
  assert.is((reason as SvcError).code, 'CANCELLED');
  await waitFor('the router to forget it', () => listener.router.active + listener.router.waiting === 0);
});

test.run();
