/** Scores through the addon. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineRerankRequest, NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { modelPath, openAddon, openEngine, RANKING_MODELS, type RankingModel } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';

const addon = openAddon();
addon.setErrorClass(SvcError);

interface Ranker {
  readonly engine: NativeEngine;
  rerank(request: EngineRerankRequest): Promise<number[]>;
}

async function open(model: RankingModel): Promise<Ranker> {
  const outputs: NativeOutput[] = [];
  const engine = await addon.load(
    modelPath(model),
    { threads: 1 },
    () => undefined,
    (step) => void outputs.push(...step),
  );
  const rerank = async (request: EngineRerankRequest): Promise<number[]> => {
    await engine.rerank(request);
    const own = (): NativeOutput[] => outputs.filter(({ id }) => id === request.id);
    await waitFor('the scores', () => own().some(({ finish }) => finish !== undefined));
    return own().flatMap(({ embeddings }) => [...(embeddings ?? [])]);
  };
  return { engine, rerank };
}

async function refusal(work: Promise<unknown>): Promise<SvcError> {
  try {
    await work;
  } catch (error) {
    return error as SvcError;
  }
  throw new Error('it was not refused');
}

for (const model of RANKING_MODELS) {
  test(`${model}: a score for each document, in their order`, async () => {
    const { engine, rerank } = await open(model);
    assert.equal([engine.info.ranks, engine.info.makes_embeddings, engine.info.embedding_length], [true, true, 1]);
    const documents = ['the river runs', 'seven boats', 'the river runs'];
    const [first, second, third] = await rerank({ id: 1, query: 'rivers', documents });
    assert.ok(first !== second && Math.abs((first ?? NaN) - (third ?? NaN)) < 0.01);
    const invalid: readonly (readonly [object, RegExp])[] = [
      [{ documents: ['a'] }, /^query/],
      [{ query: '', documents: ['a'] }, /^query must not be empty/],
      [{ query: 'a' }, /^documents/],
      [{ query: 'a', documents: [] }, /^documents must not be empty/],
      [{ query: 'a', documents: [7] }, /^documents\[0\]/],
    ];
    for (const [request, message] of invalid) {
      const error = await refusal(engine.rerank({ id: 2, ...request } as never));
      assert.is(error.code, 'INVALID_REQUEST');
      assert.match(error.message, message);
    }
    const embedded = await refusal(engine.embed({ id: 3, input: ['a'] }));
    assert.is(embedded.message, 'this model ranks documents and makes no embeddings');
    await engine.close();
  });
}

test('a model that writes text ranks nothing', async () => {
  const { native } = await openEngine('tiny-llama');
  const { code, message } = await refusal(native.rerank({ id: 1, query: 'a', documents: ['b'] }));
  assert.equal([code, message], ['INVALID_REQUEST', 'this model writes text and ranks no documents']);
  await native.close();
});

test('a file without a classifier head is no model that ranks, whatever its pooling type', async () => {
  const whole = await readFile(modelPath('tiny-bert'));
  const header = parseGgufHeader(whole, whole.length, 'tiny-bert');
  if (header === 'more') throw new Error('tiny-bert: truncated GGUF header');
  const RANK = 4;
  whole.writeUInt32LE(RANK, header.metadata.get('bert.pooling_type')!.end - 4);
  const folder = await mkdtemp(join(tmpdir(), 'svc-rank-'));
  try {
    const path = join(folder, 'headless.gguf');
    await writeFile(path, whole);
    const load = addon.load(
      path,
      { threads: 1 },
      () => undefined,
      () => undefined,
    );
    const { code, message } = await refusal(load);
    assert.is(code, 'MODEL_INVALID');
    assert.match(message, /headless\.gguf has the pooling type of a model that ranks, but no classifier head$/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test.run();
