/** Embeddings of Gemini's native API: the requests sent, and how answers are read. It does not rerank. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gemini as wire } from '../../../src/backends/cloud/wires/gemini/gemini.ts';
import { featuresOf } from './features.ts';
import { askVectors, KEY, readVectors, thrown } from './wire-support.ts';

const { feature, refused } = featuresOf('gemini', test);

feature('embeddings', 'are requested in one batch', () => {
  const model = 'models/gemini-embedding-001';
  assert.equal(askVectors(wire, model, { input: ['a', 'b'], dimensions: 2 }), {
    path: `/${model}:batchEmbedContents`,
    headers: { 'x-goog-api-key': KEY },
    body: {
      requests: [
        { model, content: { parts: [{ text: 'a' }] }, outputDimensionality: 2 },
        { model, content: { parts: [{ text: 'b' }] }, outputDimensionality: 2 },
      ],
    },
  });
  // Shortened vectors do not have length 1.
  assert.equal(readVectors(wire, { embeddings: [{ values: [0.3, 0.4] }, { values: [0, 1] }] }, 2), {
    model: null,
    content: { type: 'vectors', vectors: [Float32Array.of(0.6, 0.8), Float32Array.of(0, 1)] },
    usage: null,
  });
  const counted = { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 4 } };
  assert.is(readVectors(wire, counted).usage?.input_tokens, 4);
});

refused('token ids to embed', () => {
  const error = thrown(() => askVectors(wire, 'm', { input: ['a', [1]] }));
  assert.equal([error.code, error.param], ['INVALID_REQUEST', 'input[1]']);
});

refused('reranking', () => {
  assert.is(wire.rerank, null);
});

test.run();
