/** Embeddings through the addon: vectors as typed arrays, rejections, cancels, and close during work. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineEmbedRequest, NativeEngine, NativeOutput } from '../../src/engine/addon.ts';
import { EMBEDDING_MODELS, modelPath, openAddon, openEngine, type EmbeddingModel } from '../support/native-engine.ts';
import { waitFor } from '../support/wait.ts';

interface Opened {
  readonly engine: NativeEngine;
  readonly outputs: readonly NativeOutput[];
  /** Returns the vectors of all inputs. */
  embed(request: EngineEmbedRequest): Promise<Float32Array[]>;
  end(id: number): Promise<NativeOutput>;
}

async function open(model: EmbeddingModel): Promise<Opened> {
  const outputs: NativeOutput[] = [];
  const engine = await openAddon().load(
    modelPath(model),
    { threads: 1 },
    () => undefined,
    (step) => outputs.push(...step),
  );
  const end = (id: number): Promise<NativeOutput> =>
    waitFor('the end', () => outputs.find((each) => each.id === id && (each.finish ?? each.error) !== undefined));
  return {
    engine,
    outputs,
    end,
    async embed(request) {
      await engine.embed(request);
      await end(request.id);
      const length = engine.info.embedding_length;
      return outputs
        .filter(({ id }) => id === request.id)
        .flatMap(({ embeddings = new Float32Array() }) =>
          Array.from({ length: embeddings.length / length }, (_, at) =>
            embeddings.subarray(at * length, (at + 1) * length),
          ),
        );
    },
  };
}

/** Cosine similarity. REQUIRES: both vectors have length 1. */
function cosine(a: Float32Array = new Float32Array(), b: Float32Array = new Float32Array()): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}

async function refusal(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await work;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error('it was not refused');
}

for (const model of EMBEDDING_MODELS) {
  test(`${model}: one vector for each input, in order, whatever is computed in the same batch`, async () => {
    const { engine, embed } = await open(model);
    assert.is(engine.info.makes_embeddings, true);
    const inputs = Array.from({ length: 150 }, (_, index) => `river ${String(index * 37)} `.repeat(1 + (index % 5)));
    const [all, half] = await Promise.all([embed({ id: 1, input: inputs }), embed({ id: 2, input: inputs.slice(75) })]);
    assert.is(all.length, 150);
    assert.is(half.length, 75);
    for (const [index, vector] of half.entries()) {
      assert.instance(vector, Float32Array);
      assert.ok(Math.abs(cosine(vector, vector) - 1) < 1e-4, 'its length is 1');
      assert.ok(cosine(vector, all[75 + index]) > 0.999);
      assert.ok(cosine(vector, all[74 + index]) < 0.999);
    }
    const [alone] = await embed({ id: 3, input: [inputs[149] ?? ''] });
    assert.ok(cosine(alone, all[149]) > 0.999);
    await engine.close();
  });
}

test('tokens are used unchanged, and a text gets the special tokens of the model', async () => {
  const { engine, embed, end } = await open('tiny-bert');
  const tokens = Int32Array.from(await engine.encode('a river', { addSpecial: true }));
  const without = Int32Array.from(await engine.encode('a river'));
  const [text, same, bare] = await embed({ id: 1, input: ['a river', tokens, without] });
  assert.ok(cosine(text, same) > 0.999);
  assert.ok(cosine(text, bare) < 0.999);
  const { finish } = await end(1);
  assert.equal(
    [finish?.reason, finish?.usage.input_tokens, finish?.usage.output_tokens, finish?.timings.first_token_ms],
    ['stop', 3 * tokens.length - 2, 0, null],
  );
  await engine.close();
});

test('an invalid input is rejected with its index', async () => {
  const { engine, outputs } = await open('tiny-bert');
  const ask = (inputs: unknown): Promise<{ code: string; message: string }> =>
    refusal(engine.embed({ id: 1, input: inputs } as EngineEmbedRequest));
  const long = await ask(['a', 'river '.repeat(600)]);
  assert.equal(
    [long.code, long.message],
    ['CONTEXT_OVERFLOW', 'input[1] has 602 tokens, and the model takes at most 512'],
  );
  for (const inputs of [undefined, 'a', [], [1], [['a']], [[1, 2]], [new Int32Array()], [Int32Array.of(-1)], [null]]) {
    assert.is((await ask(inputs)).code, 'INVALID_REQUEST');
  }
  assert.match((await ask([Int32Array.of(1, 40_000)])).message, /^token 40000 is not in the vocabulary of 30522$/);
  assert.equal(outputs, []);
  await engine.close();
});

test('a model of the other kind refuses a request', async () => {
  const { engine, embed } = await open('tiny-bert');
  for (const ask of [() => engine.submit({ id: 1, prompt: 'x' }), () => engine.render({ id: 1, prompt: 'x' })]) {
    const { code, message } = await refusal(Promise.resolve().then<unknown>(ask));
    assert.equal([code, message], ['INVALID_REQUEST', 'this model makes embeddings and writes no text']);
  }
  // Calls without an answer have no effect.
  engine.pause(1);
  engine.resume(1);
  engine.setPrefixBytes(0);
  assert.is((await embed({ id: 1, input: ['a'] })).length, 1);
  const reranked = await refusal(engine.rerank({ id: 2, query: 'a', documents: ['b'] }));
  assert.is(reranked.message, 'this model makes embeddings and ranks no documents');
  await engine.close();

  const { native } = await openEngine('tiny-llama');
  const { code, message } = await refusal(native.embed({ id: 1, input: ['a'] }));
  assert.equal([code, message], ['INVALID_REQUEST', 'this model writes text and makes no embeddings']);
  await native.close();
});

test('a cancel drops the remaining vectors, and close ends all requests', async () => {
  const { engine, end, embed } = await open('tiny-bert');
  const many = Array.from({ length: 2000 }, (_, index) => `the river ${String(index)} runs under the old bridge`);
  await engine.embed({ id: 1, input: many });
  engine.cancel(1);
  assert.is((await end(1)).finish?.reason, 'cancelled');
  assert.is((await embed({ id: 2, input: ['a'] })).length, 1);
  assert.equal([engine.stats().active, engine.stats().waiting], [0, 0]);

  await engine.embed({ id: 3, input: many });
  await engine.close();
  assert.is((await end(3)).finish?.reason, 'cancelled');
  assert.is((await refusal(engine.embed({ id: 4, input: ['a'] }))).code, 'ENGINE_UNAVAILABLE');
});

test.run();
