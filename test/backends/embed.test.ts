/** Embeddings of the local backend, with a real engine process. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EmbedEvent, EmbedRequest } from '../../src/protocol/embed.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { EMBEDDING_MODELS, modelPath } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';
import { context, failure } from './conformance.ts';
import { ask } from './local-support.ts';
import { firstAfterKill, makeRealLocal, TINY, type RealLocal } from './real-local.ts';

const [BERT, LLAMA] = EMBEDDING_MODELS;
const MODELS = { bert: modelPath(BERT), causal: modelPath(LLAMA), writer: TINY.llama };

const test = suite<{ local: RealLocal }>('embeddings of the local backend');
test.before.each((each) => {
  each.local = makeRealLocal({ queue_limit: 2, max_sequences: 1 }, MODELS, null, {
    bert: 'embedding',
    causal: 'embedding',
  });
});
test.after.each(async ({ local }) => {
  await local.dispose();
  assert.equal(local.backend.pids(), []);
});

async function collect(events: AsyncIterable<EmbedEvent>): Promise<EmbedEvent[]> {
  const all: EmbedEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

function vectorsOf(events: readonly EmbedEvent[]): Float32Array[] {
  return events.flatMap((event) => (event.type === 'vectors' ? [...event.vectors] : []));
}

const MANY: EmbedRequest = {
  model: 'bert',
  input: Array.from({ length: 2048 }, (_, index) => `the river ${String(index)} runs under the old bridge `.repeat(20)),
};

test('embedding yields start, a vector for each input, and finish with usage', async ({ local: { backend } }) => {
  for (const [model, length] of [
    ['bert', 64],
    ['causal', 128],
  ] as const) {
    const began = context();
    const events = await collect(backend.embed({ model, input: ['a river', [5, 6, 7], 'x'.repeat(50)] }, began));
    assert.equal(events[0], { type: 'start', model, provider: 'local' });
    assert.equal(
      vectorsOf(events).map((vector) => vector.length),
      [length, length, length],
    );
    const finish = events.at(-1);
    assert.ok(finish?.type === 'finish' && finish.usage !== null);
    assert.ok(finish.usage.input_tokens > 6);
    assert.is(finish.usage.output_tokens, 0);
    assert.ok(finish.timings.queue_ms >= 0 && finish.timings.total_ms >= finish.timings.queue_ms);
    assert.ok(finish.timings.total_ms <= performance.now() - began.arrivedAt);
  }
});

test('a model of the wrong kind, text or embedding, is rejected without starting an engine', async ({
  local: { backend },
}) => {
  const embedded = await failure(collect(backend.embed({ model: 'writer', input: ['a'] }, context())));
  assert.equal([embedded.code, embedded.param], ['INVALID_REQUEST', 'model']);
  const iterator = backend.generate(ask('Hello', 'bert'), context())[Symbol.asyncIterator]();
  assert.equal((await failure(iterator.next())).code, 'INVALID_REQUEST');
  assert.equal(backend.pids(), []);
});

test('wrong dimensions, an input that is too long, and an unknown token are rejected', async ({
  local: { backend },
}) => {
  const refused = async (request: Omit<EmbedRequest, 'model'>): Promise<SvcError> =>
    failure(collect(backend.embed({ model: 'bert', ...request }, context())));
  const cut = await refused({ input: ['a'], dimensions: 32 });
  assert.equal([cut.code, cut.param], ['INVALID_REQUEST', 'dimensions']);
  assert.match(cut.message, /64/);
  const long = await refused({ input: ['a', 'river '.repeat(600)] });
  assert.is(long.code, 'CONTEXT_OVERFLOW');
  assert.match(long.message, /602 .* 512/);
  assert.is((await refused({ input: [[40_000]] })).code, 'INVALID_REQUEST');
  assert.is(
    vectorsOf(await collect(backend.embed({ model: 'bert', input: ['a'], dimensions: 64 }, context()))).length,
    1,
  );
});

test('an abort stops the work, and the queue is bounded', async ({ local: { backend } }) => {
  const controller = new AbortController();
  const reason = new SvcError('CANCELLED', 'the caller has left');
  const running = Array.from({ length: 3 }, () => failure(collect(backend.embed(MANY, context(controller.signal)))));
  await waitFor('the work', () => backend.loadedModels().some(({ active }) => active > 0));
  const [busy] = await Promise.all([failure(collect(backend.embed({ model: 'bert', input: ['a'] }, context())))]);
  assert.is(busy.code, 'BUSY');
  const [loaded] = backend.loadedModels();
  assert.equal([loaded?.kv_cells_used, loaded?.kv_cells_total], [null, null]);
  assert.is((loaded?.active ?? 0) + (loaded?.waiting ?? 0), 3);
  controller.abort(reason);
  for (const error of await Promise.all(running)) assert.is(error, reason);
  await waitFor('the engine to forget it', () =>
    backend.loadedModels().every(({ active, waiting }) => active + waiting === 0),
  );
  // The aborted request does not delay this one.
  assert.is(vectorsOf(await collect(backend.embed({ model: 'bert', input: ['a'] }, context()))).length, 1);
});

test('returning early from the iteration stops the work too', async ({ local: { backend } }) => {
  for await (const { type } of backend.embed(MANY, context())) if (type === 'vectors') break;
  await waitFor('the engine to forget it', () =>
    backend.loadedModels().every(({ active, waiting }) => active + waiting === 0),
  );
});

test('if an engine dies before its first vector, the request is retried', async ({ local: { backend, log } }) => {
  await collect(backend.embed({ ...MANY, input: ['a'] }, context()));
  const events = backend.embed(MANY, context())[Symbol.asyncIterator]();
  assert.is((await firstAfterKill(backend, events)).type, 'start');
  const second = await events.next();
  assert.is(second.value?.type, 'vectors');
  assert.ok(log.some(({ message }) => message.includes('retrying once')));
  await events.return();
});

test.run();
