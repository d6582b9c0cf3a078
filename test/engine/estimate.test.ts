/** Dry runs of real model files, compared with the memory that engines then hold. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { estimateModel } from '../../src/engine/estimate.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import { collect, context } from '../backends/conformance.ts';
import { ask } from '../backends/local-support.ts';
import { makeRealLocal } from '../backends/real-local.ts';
import { BUILT_ENGINE } from '../support/built.ts';
import { EMBEDDING_MODELS, modelPath, TEST_MODELS } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';

const onLinux = unless(process.platform === 'linux' ? undefined : 'private memory is measured on Linux', test);

const CONTEXT_LENGTH = 4096;
const SEQUENCES = 16;
/** Tolerance: the heaps of Node and the allocator vary by more than a tenth of these small models. */
const HEAPS_BYTES = 12e6;

/** Private memory, as the daemon measures it, after the context was full with the maximum of sequences. */
async function heldByAFullEngine(path: string): Promise<number> {
  const settings = { context_length: CONTEXT_LENGTH, max_sequences: SEQUENCES };
  const { backend, dispose } = makeRealLocal(settings, { one: path });
  try {
    const answers = Array.from({ length: SEQUENCES }, (_, index) =>
      collect(backend.generate({ ...ask(`${String(index)} word`.repeat(100), 'one'), max_tokens: 40 }, context())),
    );
    await Promise.all(answers);
    const beats = async (): Promise<number | null | undefined> => (await backend.models())[0]?.loaded?.memory_bytes;
    let last = 0;
    // The heartbeat reports it with a delay, and the JavaScript heap always varies a little.
    const stays = async (): Promise<number | undefined> => {
      const before = last;
      last = (await beats()) ?? 0;
      return Math.abs(last - before) < last / 50 ? last : undefined;
    };
    return await waitFor('a figure that stays', stays, { intervalMs: 1200 });
  } finally {
    await dispose();
  }
}

for (const name of TEST_MODELS) {
  onLinux(`the estimate of ${name} is close to the memory that its engine holds`, async () => {
    const path = modelPath(name);
    const options = { threads: 1, max_sequences: SEQUENCES };
    const { process_bytes, estimates } = await estimateModel({ id: name, path }, options, [CONTEXT_LENGTH], {
      entry: BUILT_ENGINE,
    });
    const [host] = estimates[0]?.devices ?? [];
    assert.ok(host !== undefined && process_bytes !== null);
    const estimate = process_bytes + host.weights_bytes + host.cache_bytes + host.compute_bytes;
    const measured = await heldByAFullEngine(path);
    const error = ((estimate - measured) / measured) * 100;
    const figures = `estimated ${(estimate / 1e6).toFixed(1)} MB, measured ${(measured / 1e6).toFixed(1)} MB`;
    process.stdout.write(`${name}: ${figures} (${error.toFixed(1)} %)\n`);
    assert.ok(Math.abs(estimate - measured) < Math.max(measured / 10, HEAPS_BYTES), figures);
  });
}

test('an embedding model has an estimate too', async () => {
  for (const name of EMBEDDING_MODELS) {
    const { makes_embeddings, estimates } = await estimateModel({ id: name, path: modelPath(name) }, {}, [0]);
    assert.ok(makes_embeddings);
    assert.ok((estimates[0]?.devices[0]?.weights_bytes ?? 0) > 1e6);
  }
});

test('a file that is not a model is refused with the reason', async () => {
  try {
    await estimateModel({ id: 'none', path: '/nowhere.gguf' }, {}, [0]);
    assert.unreachable();
  } catch (error) {
    assert.is((error as SvcError).code, 'MODEL_INVALID');
    assert.match((error as SvcError).message, /does not exist/);
  }
});

test.run();
