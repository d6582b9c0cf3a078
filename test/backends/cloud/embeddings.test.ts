/** Embeddings and reranking of providers over real sockets: whole, in batches, refused, broken, slow and aborted. */
import * as assert from 'uvu/assert';
import { toVector } from '../../../src/backends/cloud/embeddings/vectors.ts';
import { Collector } from '../../../src/protocol/collect.ts';
import type { EmbedRequest } from '../../../src/protocol/embed.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import { rejection } from '../../support/errors.ts';
import { waitFor } from '../../support/wait.ts';
import { context, failure } from '../conformance.ts';
import { KEY, type Cloud } from './cloud-support.ts';
import { cloudSuite, said } from './cloud-suite.ts';
import { DIMENSIONS, geminiVectors, lengthScores, openAiVectors, vectorOf } from './embedding-support.ts';
import { thrown } from './wire-support.ts';

const test = cloudSuite('embeddings of providers');

const TEXTS = ['one', 'two', 'three'];
const texts = (count: number): string[] => Array.from({ length: count }, (_, index) => `text ${String(index)}`);

async function embed({ backend }: Cloud, request: Partial<EmbedRequest> = {}): Promise<Collector> {
  return await Collector.of(backend.embed({ model: 'm', input: TEXTS, ...request }, context()));
}
const refusal = (opened: Cloud, request: Partial<EmbedRequest> = {}): Promise<SvcError> =>
  failure(embed(opened, request));

test('vectors come in the order of the inputs, with the model and the usage of the provider', async ({
  open,
  upstream,
}) => {
  upstream.script(openAiVectors);
  const { start, finish, vectors } = await embed(open());
  assert.equal(start, { type: 'start', model: 'm-2026', provider: 'acme' });
  assert.equal(
    vectors,
    TEXTS.map((text) => vectorOf(text)),
  );
  assert.equal(finish.usage, { input_tokens: 11, output_tokens: 0, cached_tokens: 0 });
  assert.is(finish.reason, 'stop');
  const { ttft_ms, total_ms, tokens_per_second } = finish.timings;
  assert.ok(ttft_ms !== null && ttft_ms <= total_ms && tokens_per_second === null);
  const [asked] = upstream.asked;
  assert.equal([asked?.path, asked?.headers.authorization], ['/v1/embeddings', `Bearer ${KEY}`]);
});

test('lists of numbers are read like base64, and shorter vectors on request', async ({ open, upstream }) => {
  upstream.script((turn) => {
    delete turn.request.body.encoding_format;
    return openAiVectors(turn);
  });
  const { vectors } = await embed(open(), { dimensions: 3 });
  assert.equal(
    vectors,
    TEXTS.map((text) => vectorOf(text, 3)),
  );
});

test('a longer list than a request may have is sent in several, and answered as one', async ({ open, upstream }) => {
  upstream.script(geminiVectors);
  const opened = open({ api: 'gemini' });
  const input = texts(250);
  const { start, finish, vectors } = await embed(opened, { input });
  assert.equal(
    vectors,
    input.map((text) => vectorOf(text)),
  );
  assert.equal([start.model, finish.usage?.input_tokens], ['m', 250]);
  assert.equal(
    upstream.asked.map(({ path, body }) => [path, body.requests.length]),
    [100, 100, 50].map((count) => ['/v1/models/m:batchEmbedContents', count]),
  );

  upstream.script(openAiVectors);
  const small = await embed(open({ quirks: { embedding_inputs: 2 } }));
  assert.equal([small.vectors.length, small.finish.usage?.input_tokens], [3, 11]);
  assert.equal(
    upstream.asked.slice(3).map(({ body }) => body.input),
    [['one', 'two'], ['three']],
  );
});

test('an API without embeddings refuses them by name, and so does a request without a model', async ({
  open,
  upstream,
}) => {
  const none = await refusal(open({ api: 'messages' }));
  assert.equal([none.code, none.message, none.param], ['INVALID_REQUEST', 'acme: its API has no embeddings', 'model']);
  const { backend } = open();
  const events = backend.embed({ input: ['a'] }, context());
  await rejection(() => events.next(), 'INVALID_REQUEST', /^acme has no default model for embeddings/);
  const ranking = { query: 'q', documents: ['a'] };
  const scores = backend.rerank(ranking, context());
  await rejection(() => scores.next(), 'INVALID_REQUEST', /^acme has no default model for reranking/);
  for (const api of ['messages', 'gemini'] as const) {
    const refused = open({ api }).backend.rerank({ ...ranking, model: 'm' }, context());
    const { param } = await rejection(() => refused.next(), 'INVALID_REQUEST', /^acme: its API has no reranking$/);
    assert.is(param, 'model');
  }
  assert.equal(upstream.asked, []);
});

test('scores come in the order of the documents, with the model and the usage of the provider', async ({
  open,
  upstream,
}) => {
  upstream.script(lengthScores);
  const request = { model: 'm', query: 'q', documents: TEXTS };
  const { start, finish, scores } = await Collector.of(open().backend.rerank(request, context()));
  assert.equal([start.model, start.provider, scores], ['m-2026', 'acme', [3, 3, 5]]);
  assert.equal(finish.usage, { input_tokens: 11, output_tokens: 0, cached_tokens: 0 });
  upstream.script((turn) => turn.json(503, said('later')));
  const error = await failure(Collector.of(open().backend.rerank(request, context())));
  assert.equal([error.code, error.message.startsWith('acme: ')], ['PROVIDER_FAILED', true]);
});

test('errors of the provider have their codes, and name it', async ({ open, upstream }) => {
  const cases = [
    [401, said('no', { code: 'invalid_api_key' }), 'PROVIDER_AUTH'],
    [429, said('slow down'), 'BUSY'],
    [404, said('no such model', { code: 'model_not_found' }), 'MODEL_NOT_FOUND'],
    [400, said("This model's maximum context length is 8192 tokens"), 'CONTEXT_OVERFLOW'],
    [400, said('bad input'), 'INVALID_REQUEST'],
    [500, said('oops'), 'PROVIDER_FAILED'],
    // Some servers send errors with status 200.
    [200, said('slow down', { code: 'rate_limit_exceeded' }), 'BUSY'],
  ] as const;
  for (const [status, body, code] of cases) {
    upstream.script((turn) => turn.json(status, body, { 'retry-after': '7' }));
    const error = await refusal(open());
    assert.is(error.code, code, String(status));
    assert.match(error.message, /^acme: /);
    if (status === 429) assert.is(error.retryAfterSeconds, 7);
  }
});

const item = (index: number, embedding: unknown = [1, 0]): object => ({ object: 'embedding', index, embedding });
const base64 = (...numbers: number[]): string => Buffer.from(Float32Array.from(numbers).buffer).toString('base64');

test('an answer that violates the API is a failure of the provider, and is not repeated', async ({
  open,
  upstream,
}) => {
  const all = [item(0), item(1)];
  const cases: readonly (readonly [what: string, body: unknown])[] = [
    ['too few', { data: all }],
    ['too many', { data: [...all, item(2), item(3)] }],
    ['an index twice', { data: [...all, item(1)] }],
    ['an index beyond', { data: [...all, item(7)] }],
    ['a negative index', { data: [...all, item(-1)] }],
    ['no index', { data: [...all, { embedding: [1, 0] }] }],
    ['a fraction', { data: [...all, item(1.5)] }],
    ['no vector', { data: [...all, { index: 2 }] }],
    ['another length', { data: [...all, item(2, [1, 0, 0])] }],
    ['an empty vector', { data: [...all, item(2, [])] }],
    ['zeros', { data: [...all, item(2, [0, 0])] }],
    ['texts', { data: [...all, item(2, ['1', '0'])] }],
    ['null', { data: [...all, item(2, [null, 1])] }],
    ['more than a float', { data: [...all, item(2, [1e39, 0])] }],
    ['NaN', { data: [...all, item(2, base64(NaN, 1))] }],
    ['infinity', { data: [...all, item(2, base64(-Infinity, 1))] }],
    ['no base64', { data: [...all, item(2, 'secret!!')] }],
    ['half a float', { data: [...all, item(2, Buffer.from('secret').toString('base64'))] }],
    ['no list', { data: { secret: 1 } }],
    ['no object', '"secret"'],
    ['no JSON', '{"data": [secret'],
  ];
  for (const [what, body] of cases) {
    upstream.script((turn) => turn.json(200, body));
    const error = await refusal(open());
    assert.is(error.code, 'PROVIDER_FAILED', what);
    assert.match(error.message, /^acme: invalid response from the provider/, what);
    assert.not.match(JSON.stringify(error.toRecord()), 'secret', what);
  }
});

test('the provider must keep to the dimensions of the request, over all batches', async ({ open, upstream }) => {
  upstream.script((turn) => {
    delete turn.request.body.dimensions;
    return openAiVectors(turn);
  });
  const ignored = await refusal(open(), { dimensions: 3 });
  assert.equal([ignored.code, ignored.param], ['INVALID_REQUEST', 'dimensions']);
  assert.match(ignored.message, String(DIMENSIONS));

  upstream.script((turn) => {
    turn.request.body.dimensions = turn.request.body.input.length;
    return openAiVectors(turn);
  });
  assert.is((await refusal(open({ quirks: { embedding_inputs: 2 } }))).code, 'PROVIDER_FAILED');
});

test('an endless answer is cut off', async ({ open, upstream }) => {
  upstream.script(async (turn) => {
    turn.head(200, { 'content-type': 'application/json' });
    await turn.write('{"data":[{"index":0,"embedding":[');
    const numbers = '0.1,'.repeat(16 * 1024);
    while (!turn.isOver) await turn.write(numbers);
  });
  const error = await refusal(open(), { input: ['a'] });
  assert.equal([error.code, error.message.includes('more than')], ['PROVIDER_FAILED', true]);
});

test('aborting a request closes its connection, and the next batch is not sent', async ({ open, upstream }) => {
  upstream.script(() => undefined);
  const client = new AbortController();
  const gone = new SvcError('CANCELLED', 'left');
  const { backend } = open({ quirks: { embedding_inputs: 1 } });
  const events = backend.embed({ model: 'm', input: TEXTS }, context(client.signal));
  const outcome = failure(Collector.of(events));
  await waitFor('the request to arrive', () => upstream.asked.length === 1);
  client.abort(gone);
  assert.is(await outcome, gone);
  await waitFor('the connection to close', () => upstream.connections() === 0);
  assert.is(upstream.asked.length, 1);
});

test('a vector is scaled to length 1 unless it has it', () => {
  const exact = Float32Array.of(0.6, 0.8);
  assert.equal(toVector(base64(0.6, 0.8)), exact);
  assert.equal(toVector([0.6, 0.8]), exact);
  assert.equal(toVector([3, 4]), exact);
  assert.equal(toVector([1e-30, 0]), Float32Array.of(1, 0));
  for (const sent of [Array.from({ length: 65_537 }, () => 1), 'AAAA'.repeat(100_000)])
    assert.is(thrown(() => toVector(sent)).code, 'PROVIDER_FAILED');
});

test.run();
