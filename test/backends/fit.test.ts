/** Which settings are taken for which room, with dry runs that are made up. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { NativeDeviceMemory, NativeLoadOptions } from '../../src/engine/addon.ts';
import { chooseFit, type Estimate, type Plan, type Room } from '../../src/backends/local/fit.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const MB = 1e6;
const LAYERS = 10;

interface Machine {
  /** What its GPU has free; absent: there is none. */
  readonly gpuFree?: number;
  /** Whether the model's shape allows Q8_0. */
  readonly quantizes?: boolean;
}

/** A model of 100 MB in ten layers, 10 kB of cache for each token and 10 MB of buffers. */
function dryRun({ gpuFree, quantizes = true }: Machine, asked: NativeLoadOptions[] = []): Estimate {
  return (options, lengths) => {
    asked.push(options);
    if (options.cacheType === 'q8_0' && !quantizes) {
      return Promise.reject(new SvcError('MODEL_INVALID', 'the shape does not allow it'));
    }
    const onGpu = gpuFree === undefined ? 0 : Math.min(options.gpuLayers ?? LAYERS, LAYERS) / LAYERS;
    const estimates = lengths.map((length) => {
      const contextLength = Math.ceil((length === 0 ? 8192 : length) / 256) * 256;
      const cache = contextLength * 10_000 * (options.cacheType === 'q8_0' ? 0.5 : 1);
      const row = (name: string, part: number, freeBytes: number | null): NativeDeviceMemory => ({
        name,
        isHost: freeBytes === null,
        weightsBytes: 100 * MB * part,
        mappedBytes: freeBytes === null ? 100 * MB * part : 0,
        cacheBytes: cache * part,
        computeBytes: 10 * MB * part,
        freeBytes,
        totalBytes: freeBytes,
      });
      const devices = [row('CPU', 1 - onGpu, null), ...(gpuFree === undefined ? [] : [row('GPU', onGpu, gpuFree)])];
      return { contextLength, devices };
    });
    return Promise.resolve({
      trainedContextLength: 32_768,
      layers: LAYERS,
      makesEmbeddings: false,
      processBytes: 30 * MB,
      estimates,
    });
  };
}

const room = (host: number | null, budget: number | null = null): Room => ({ host, budget, devices: new Map() });
const choose = (options: NativeLoadOptions, bound: Room, machine: Machine = {}, atLeast = 0): Promise<Plan> =>
  chooseFit({ model: 'one', options, atLeast }, bound, dryRun(machine));

async function refusal(plan: Promise<Plan>): Promise<SvcError> {
  try {
    await plan;
  } catch (error) {
    assert.instance(error, SvcError);
    return error as SvcError;
  }
  throw new Error('it fits');
}

test('what fits is taken as it was asked for, with one dry run', async () => {
  const asked: NativeLoadOptions[] = [];
  const plan = await chooseFit({ model: 'one', options: {}, atLeast: 0 }, room(null), dryRun({}, asked));
  assert.equal(plan.options, { contextLength: 8192 });
  assert.is(plan.bytes.host, 30 * MB + 100 * MB + 81.92 * MB + 10 * MB);
  assert.is(plan.mappedBytes, 100 * MB);
  assert.is(asked.length, 1);
});

test('then a smaller cache, then a shorter context', async () => {
  assert.equal((await choose({}, room(200 * MB))).options, { contextLength: 8192, cacheType: 'q8_0' });

  const short = await choose({}, room(165 * MB));
  assert.is(short.options.cacheType, 'q8_0');
  // 25 MB are left for cells of 5 kB: 5,000, in steps of 256.
  assert.is(short.options.contextLength, 4864);
  assert.ok(short.bytes.host <= 165 * MB);

  const wide = await choose({}, room(165 * MB), { quantizes: false });
  assert.equal(wide.options, { contextLength: 2304 });
});

test('a budget counts all, and both bounds hold', async () => {
  assert.is((await choose({}, room(null, 165 * MB))).options.contextLength, 4864);
  assert.is((await choose({}, room(155 * MB, 165 * MB))).options.contextLength, 2816);
});

test('what a person has set is not changed: it is refused with both numbers and what would fit', async () => {
  const error = await refusal(choose({ contextLength: 32_768 }, room(200 * MB)));
  assert.is(error.code, 'OUT_OF_MEMORY');
  assert.is(error.message, 'one needs 468 MB of memory at a context of 32768 tokens, and 200 MB are free');
  assert.match(error.hint ?? '', /a context of 11776 tokens fits: svc config set engine.context_length 11776/);

  const typed = await refusal(choose({ contextLength: 8192, cacheType: 'f16' }, room(200 * MB)));
  assert.match(typed.hint ?? '', /a context of 5888 tokens fits/);
});

test('a model that fits with no context is refused', async () => {
  const error = await refusal(choose({}, room(120 * MB)));
  assert.is(error.message, 'one needs 222 MB of memory at a context of 8192 tokens, and 120 MB are free');
  assert.match(error.hint ?? '', /not even a context of 2048 tokens fits/);
});

test('somebody who asks for more gets it or a refusal, never less', async () => {
  assert.is((await choose({}, room(null), {}, 20_000)).options.contextLength, 20_224);
  assert.is((await choose({}, room(null), {}, 4000)).options.contextLength, 8192);
  assert.is((await choose({}, room(165 * MB), {}, 4000)).options.contextLength, 4864);
  assert.is((await refusal(choose({}, room(165 * MB), {}, 6000))).code, 'OUT_OF_MEMORY');
});

test("layers that do not fit on the GPU are the processor's", async () => {
  // All of it there takes 192 MB, or 151 MB with Q8_0; a part of the GPU stays free.
  assert.equal((await choose({}, room(null), { gpuFree: 1000 * MB })).options, { contextLength: 8192 });
  const some = await choose({}, room(null), { gpuFree: 100 * MB });
  assert.is(some.options.contextLength, 8192);
  assert.is(some.options.gpuLayers, 6);
  assert.ok((some.bytes.devices.get('GPU') ?? 0) <= 95 * MB);
  const error = await refusal(choose({ gpuLayers: 10, contextLength: 8192 }, room(null), { gpuFree: 50 * MB }));
  assert.match(error.message, /needs 192 MB on GPU at a context of 8192 tokens, and 48 MB are free/);
});

test('what others give back on a device counts', async () => {
  const bound: Room = { host: null, budget: null, devices: new Map([['GPU', 150 * MB]]) };
  assert.equal((await choose({}, bound, { gpuFree: 100 * MB })).options, { contextLength: 8192 });
});

test.run();
