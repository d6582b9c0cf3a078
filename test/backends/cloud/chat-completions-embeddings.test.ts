/** Embeddings and reranking of OpenAI and of compatible servers: the requests sent, and how answers are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCompletions as wire } from '../../../src/backends/cloud/wires/chat-completions/chat-completions.ts';
import { featuresOf } from './features.ts';
import { askVectors, KEY, readVectors, rerankOf, thrown } from './wire-support.ts';

const { feature } = featuresOf('chat_completions', test);

feature('embeddings', 'are requested in base64, and read in the order of the inputs', () => {
  assert.equal(askVectors(wire, 'm', { input: ['a', 'b'], truncate: true }), {
    path: '/embeddings',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: 'm', input: ['a', 'b'], encoding_format: 'base64' },
  });
  assert.equal(askVectors(wire, 'm', { dimensions: 2 }).body, {
    model: 'm',
    input: ['a'],
    encoding_format: 'base64',
    dimensions: 2,
  });
  const base64 = Buffer.from(Float32Array.of(0.6, -0.8).buffer).toString('base64');
  const data = [
    { object: 'embedding', index: 1, embedding: base64 },
    { object: 'embedding', index: 0, embedding: [1, 0] },
  ];
  const usage = { prompt_tokens: 3, total_tokens: 3 };
  assert.equal(readVectors(wire, { object: 'list', model: 'm-1', data, usage }, 2), {
    model: 'm-1',
    content: { type: 'vectors', vectors: [Float32Array.of(1, 0), Float32Array.of(0.6, -0.8)] },
    usage: { input_tokens: 3, output_tokens: 0, cached_tokens: 0 },
  });
  const { model, usage: none } = readVectors(wire, { data: [{ index: 0, embedding: [1] }], usage: {} });
  assert.equal([model, none], [null, null]);
});

feature('token ids to embed', 'are sent unchanged, but not beside texts', () => {
  assert.equal((askVectors(wire, 'm', { input: [[1, 2], [3]] }).body as { input: unknown }).input, [[1, 2], [3]]);
  const error = thrown(() => askVectors(wire, 'm', { input: ['a', 'b', [3]] }));
  assert.equal([error.code, error.param], ['INVALID_REQUEST', 'input[2]']);
});

feature('reranking', 'has the fields of Cohere, and its scores are read in the order of the documents', () => {
  const documents = ['a', 'b'];
  const target = { model: 'm', key: KEY, quirks: {} };
  assert.equal(rerankOf(wire).request({ query: 'q', documents, truncate: true }, target), {
    path: '/rerank',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: 'm', query: 'q', documents, return_documents: false },
  });
  const error = thrown(() => rerankOf(wire).request({ query: 'q', documents, max_document_tokens: 2 }, target));
  assert.equal([error.code, error.param], ['INVALID_REQUEST', 'max_document_tokens']);

  const results = [
    { index: 1, relevance_score: 0.9, document: null },
    { index: 0, relevance_score: -3 },
  ];
  const read = (more: object): unknown => rerankOf(wire).read({ results, ...more }, 2);
  const content = { type: 'scores', scores: [-3, 0.9] };
  const usage = { input_tokens: 7, output_tokens: 0, cached_tokens: 0 };
  assert.equal(read({ model: 'm-1', usage: { total_tokens: 7 } }), { model: 'm-1', content, usage });
  assert.equal(read({ meta: { tokens: { input_tokens: 7 } } }), { model: null, content, usage });
  assert.equal(read({}), { model: null, content, usage: null });
});

test('scores that violate the API are a failure of the provider, and are not repeated', () => {
  const all = [0, 1].map((index) => ({ index, relevance_score: 1 }));
  for (const results of [
    [],
    [all[0]],
    [...all, { index: 2, relevance_score: 1 }],
    [all[0], all[0]],
    [all[0], { index: 1 }],
    [all[0], { index: 1, relevance_score: 'secret' }],
    [all[0], { index: 1, relevance_score: Infinity }],
    'secret',
  ]) {
    const error = thrown(() => rerankOf(wire).read({ results }, 2));
    assert.is(error.code, 'PROVIDER_FAILED');
    assert.not.match(JSON.stringify(error.toRecord()), 'secret');
  }
});

test.run();
