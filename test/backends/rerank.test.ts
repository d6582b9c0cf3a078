/** Reranking of the local backend, with a real engine process. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { ranked } from '../../src/protocol/collect.ts';
import type { RerankEvent, RerankRequest } from '../../src/protocol/rerank.ts';
import { modelPath } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';
import { context, failure } from './conformance.ts';
import { ask } from './local-support.ts';
import { firstAfterKill, makeRealLocal, TINY, type RealLocal } from './real-local.ts';

const MODELS = { ranker: modelPath('tiny-rank'), prompted: modelPath('tiny-rank-qwen3'), writer: TINY.llama };

const test = suite<{ local: RealLocal }>('reranking of the local backend');
test.before.each((each) => {
  each.local = makeRealLocal({ queue_limit: 2, max_sequences: 1 }, MODELS, null, {
    ranker: 'rerank',
    prompted: 'rerank',
  });
});
test.after.each(async ({ local }) => {
  await local.dispose();
  assert.equal(local.backend.pids(), []);
});

async function collect(events: AsyncIterable<RerankEvent>): Promise<RerankEvent[]> {
  const all: RerankEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function scoresOf(events: readonly RerankEvent[]): number[] {
  return events.flatMap((event) => (event.type === 'scores' ? [...event.scores] : []));
}

const MANY: RerankRequest = {
  model: 'prompted',
  query: 'what runs?',
  documents: Array.from({ length: 1000 }, (_, index) => `the river ${String(index)} runs `.repeat(60)),
};

test('reranking yields start, a score for each document, and finish with usage', async ({ local: { backend } }) => {
  for (const model of ['ranker', 'prompted']) {
    const documents = ['a river', '', 'x'.repeat(50)];
    const events = await collect(backend.rerank({ model, query: 'rivers', documents }, context()));
    assert.equal(events[0], { type: 'start', model, provider: 'local' });
    assert.is(scoresOf(events).length, 3);
    const finish = events.at(-1);
    assert.ok(finish?.type === 'finish' && finish.usage !== null);
    assert.ok(finish.usage.input_tokens > 6 && finish.usage.output_tokens === 0);
    const [loaded] = backend.loadedModels().filter(({ id }) => id === model);
    assert.equal([loaded?.kv_cells_total, loaded?.cache_type], [null, null]);
  }
});

test('a model of another kind is rejected without starting an engine', async ({ local: { backend } }) => {
  const request = { model: 'writer', query: 'a', documents: ['a'] };
  const refused = await failure(collect(backend.rerank(request, context())));
  assert.equal([refused.code, refused.param], ['INVALID_REQUEST', 'model']);
  const iterator = backend.generate(ask('Hello', 'ranker'), context())[Symbol.asyncIterator]();
  assert.is((await failure(iterator.next())).code, 'INVALID_REQUEST');
  assert.equal(backend.pids(), []);
});

test('a document that is too long is rejected with both numbers', async ({ local: { backend } }) => {
  const documents = ['a', 'river '.repeat(600)];
  const long = await failure(collect(backend.rerank({ model: 'ranker', query: 'a', documents }, context())));
  assert.is(long.code, 'CONTEXT_OVERFLOW');
  assert.match(long.message, /documents\[1\] .* 603 .* 512/);
});

test('an abort stops the work', async ({ local: { backend } }) => {
  const controller = new AbortController();
  const running = failure(collect(backend.rerank(MANY, context(controller.signal))));
  await waitFor('the work', () => backend.loadedModels().some(({ active }) => active > 0));
  const reason = new SvcError('CANCELLED', 'the caller has left');
  controller.abort(reason);
  assert.is(await running, reason);
  await waitFor('the engine to forget it', () =>
    backend.loadedModels().every(({ active, waiting }) => active + waiting === 0),
  );
});

test('if an engine dies before its first score, the request is retried', async ({ local: { backend, log } }) => {
  await collect(backend.rerank({ ...MANY, documents: ['a'] }, context()));
  const events = backend.rerank(MANY, context())[Symbol.asyncIterator]();
  assert.is((await firstAfterKill(backend, events)).type, 'start');
  assert.is((await events.next()).value?.type, 'scores');
  assert.ok(log.some(({ message }) => message.includes('retrying once')));
  await events.return();
});

test('documents are sorted by score, equal ones in their order', () => {
  assert.equal(ranked([1, 3, -2, 3]), [
    { index: 1, score: 3 },
    { index: 3, score: 3 },
    { index: 0, score: 1 },
    { index: 2, score: -2 },
  ]);
  assert.equal(ranked([1, 3], 1), [{ index: 1, score: 3 }]);
  assert.is(ranked([1], 5).length, 1);
});

test.run();
