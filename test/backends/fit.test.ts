/** Choice of load options for the free memory, with made-up dry runs. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { NativeDeviceMemory, NativeLoadOptions } from '../../src/engine/addon.ts';
import { chooseFit, type Estimate, type Plan, type Room } from '../../src/backends/local/memory/fit.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const MB = 1e6;
const LAYERS = 10;
const SETTINGS = { context_length: 'models.one.context_length', cache_type: 'engine.cache_type' };

interface Machine {
  /** Free GPU memory; absent if there is no GPU. */
  readonly gpuFree?: number;
  /** True if the shape of the model allows a Q8_0 cache. */
  readonly quantizes?: boolean;
  /** MB of the weights that are experts; absent if the model has none. */
  readonly experts?: number;
  readonly embeds?: boolean;
  /** Size of a sequence's state; absent if sequences share cells. */
  readonly state?: { readonly fixed: number; readonly token: number };
}

/** Dry run of a model with 100 MB in ten layers, 10 kB of cache per token and 10 MB of buffers. */
function dry_run(
  { gpuFree, quantizes = true, experts = 0, embeds = false, state }: Machine,
  asked: NativeLoadOptions[] = [],
): Estimate {
  return (options, lengths) => {
    asked.push(options);
    if (options.cache_type === 'q8_0' && !quantizes) {
      return Promise.reject(new SvcError('MODEL_INVALID', 'the shape does not allow it'));
    }
    const onGpu = gpuFree === undefined ? 0 : Math.min(options.gpu_layers ?? LAYERS, LAYERS) / LAYERS;
    // The experts of the first layers, which are the last to be on the GPU.
    const onHost = Math.max((options.cpu_experts ?? 0) / LAYERS, 1 - onGpu);
    const moved = experts * MB * (onHost - (1 - onGpu));
    const estimates = lengths.map((length) => {
      const context_length = Math.ceil((length === 0 ? 8192 : length) / 256) * 256;
      const cache = context_length * 10_000 * (options.cache_type === 'q8_0' ? 0.5 : 1);
      const row = (name: string, part: number, free_bytes: number | null): NativeDeviceMemory => ({
        name,
        is_host: free_bytes === null,
        weights_bytes: 100 * MB * part + (free_bytes === null ? moved : -moved),
        mapped_bytes: free_bytes === null ? 100 * MB * part : 0,
        cache_bytes: cache * part,
        compute_bytes: 10 * MB * part,
        free_bytes,
        total_bytes: free_bytes,
      });
      const devices = [row('CPU', 1 - onGpu, null), ...(gpuFree === undefined ? [] : [row('GPU', onGpu, gpuFree)])];
      return { context_length, devices };
    });
    return Promise.resolve({
      trained_context_length: 32_768,
      layers: LAYERS,
      has_experts: experts > 0,
      makes_embeddings: embeds,
      process_bytes: 30 * MB,
      state_fixed_bytes: state?.fixed ?? 0,
      state_token_bytes: state?.token ?? 0,
      estimates,
    });
  };
}

const room = (host: number | null, budget: number | null = null): Room => ({ host, budget, devices: new Map() });
const choose = (
  options: NativeLoadOptions,
  bound: Room,
  machine: Machine = {},
  atLeast = 0,
  trained: number | null = null,
): Promise<Plan> => chooseFit({ model: 'one', options, settings: SETTINGS, trained, atLeast }, bound, dry_run(machine));

async function refusal(plan: Promise<Plan>): Promise<SvcError> {
  try {
    await plan;
  } catch (error) {
    assert.instance(error, SvcError);
    return error as SvcError;
  }
  throw new Error('it fits');
}

test('options that fit are used unchanged, after one dry run', async () => {
  const asked: NativeLoadOptions[] = [];
  const plan = await chooseFit(
    { model: 'one', options: {}, settings: SETTINGS, trained: null, atLeast: 0 },
    room(null),
    dry_run({}, asked),
  );
  assert.equal(plan.options, { context_length: 8192 });
  assert.is(plan.bytes.host, 30 * MB + 100 * MB + 81.92 * MB + 10 * MB);
  assert.is(plan.mappedBytes, 100 * MB);
  assert.is(asked.length, 1);
});

test('the load is given the size of a state where the dry run found one', async () => {
  const { options } = await choose({}, room(null), { state: { fixed: 5 * MB, token: 1000 } });
  assert.equal(options, { context_length: 8192, state_fixed_bytes: 5 * MB, state_token_bytes: 1000 });
});

test('otherwise the cache is quantised, then the context shortened', async () => {
  assert.equal((await choose({}, room(200 * MB))).options, { context_length: 8192, cache_type: 'q8_0' });

  const short = await choose({}, room(165 * MB));
  assert.is(short.options.cache_type, 'q8_0');
  // 25 MB are left for cells of 5 kB: 5,000 cells, rounded down to a multiple of 256.
  assert.is(short.options.context_length, 4864);
  assert.ok(short.bytes.host <= 165 * MB);

  const wide = await choose({}, room(165 * MB), { quantizes: false });
  assert.equal(wide.options, { context_length: 2304 });
});

test('the budget includes all memory, and both limits hold', async () => {
  assert.is((await choose({}, room(null, 165 * MB))).options.context_length, 4864);
  assert.is((await choose({}, room(155 * MB, 165 * MB))).options.context_length, 2816);
});

test('options set by the user are not changed: the load is refused with both sizes and what would fit', async () => {
  const error = await refusal(choose({ context_length: 32_768 }, room(200 * MB)));
  assert.is(error.code, 'OUT_OF_MEMORY');
  assert.is(
    error.message,
    'not enough memory for one: a context of 32768 tokens needs 468 MB of RAM, and 200 MB are free',
  );
  assert.is(error.hint, 'a context of 11776 tokens fits: svc config set models.one.context_length 11776');

  const typed = await refusal(choose({ context_length: 8192, cache_type: 'f16' }, room(200 * MB)));
  assert.match(typed.hint ?? '', /a context of 5888 tokens fits/);
});

test('a model that does not fit at any context length is refused', async () => {
  const error = await refusal(choose({}, room(120 * MB)));
  assert.is(
    error.message,
    'not enough memory for one: a context of 8192 tokens needs 222 MB of RAM, and 120 MB are free',
  );
  assert.match(error.hint ?? '', /not even a context of 2048 tokens fits/);
});

test('an explicit context length is granted or refused, never reduced', async () => {
  assert.is((await choose({}, room(null), {}, 20_000)).options.context_length, 20_224);
  assert.is((await choose({}, room(null), {}, 4000)).options.context_length, 8192);
  assert.is((await choose({}, room(165 * MB), {}, 4000)).options.context_length, 4864);
  assert.is((await refusal(choose({}, room(165 * MB), {}, 6000))).code, 'OUT_OF_MEMORY');
});

test('layers that do not fit on the GPU run on the CPU', async () => {
  // The whole model on the GPU takes 192 MB, or 151 MB with Q8_0; a reserve of the GPU stays free.
  assert.equal((await choose({}, room(null), { gpuFree: 1000 * MB })).options, { context_length: 8192 });
  const some = await choose({}, room(null), { gpuFree: 100 * MB });
  assert.is(some.options.context_length, 8192);
  assert.is(some.options.gpu_layers, 6);
  assert.ok((some.bytes.devices.get('GPU') ?? 0) <= 95 * MB);
  const error = await refusal(choose({ gpu_layers: 10, context_length: 8192 }, room(null), { gpuFree: 50 * MB }));
  assert.match(error.message, /a context of 8192 tokens needs 192 MB on GPU, and 48 MB are free/);
});

test('experts leave the GPU first, as few as possible, and layers only after all of them', async () => {
  // The whole model on the GPU takes 151 MB with Q8_0, of which 80 MB are experts.
  const mixture = { experts: 80 };
  const few = await choose({}, room(null), { ...mixture, gpuFree: 140 * MB });
  assert.equal([few.options.gpu_layers, few.options.cpu_experts], [undefined, 3]);
  assert.ok((few.bytes.devices.get('GPU') ?? 0) <= 133 * MB);
  const many = await choose({}, room(null), { ...mixture, gpuFree: 50 * MB });
  assert.equal([many.options.gpu_layers, many.options.cpu_experts], [6, 10]);
  // What is configured stays.
  const chosen = await choose({ cpu_experts: 5 }, room(null), { ...mixture, gpuFree: 100 * MB });
  assert.equal([chosen.options.gpu_layers, chosen.options.cpu_experts], [7, 5]);
  const fixed = await choose({ gpu_layers: 10 }, room(null), { ...mixture, gpuFree: 140 * MB });
  assert.equal([fixed.options.gpu_layers, fixed.options.cpu_experts], [10, 3]);
  const both = choose({ gpu_layers: 10, cpu_experts: 0 }, room(null), { ...mixture, gpuFree: 50 * MB });
  assert.is((await refusal(both)).code, 'OUT_OF_MEMORY');
});

test('memory that other engines will free on a device counts as available', async () => {
  const bound: Room = { host: null, budget: null, devices: new Map([['GPU', 150 * MB]]) };
  assert.equal((await choose({}, bound, { gpuFree: 100 * MB })).options, { context_length: 8192 });
});

/** Context, cache type and first step for a model trained for `trained` tokens. */
async function chosen(
  bound: Room,
  trained: number,
  machine: Machine = {},
  options: NativeLoadOptions = {},
  atLeast = 0,
) {
  const { options: found, steps, bytes } = await choose(options, bound, machine, atLeast, trained);
  assert.equal(bytes, steps[0]?.bytes);
  assert.is(steps.at(-1)?.cells, found.context_length);
  for (const step of steps) assert.ok(step.bytes.host <= (bound.host ?? bound.budget ?? Infinity));
  return [found.context_length, found.cache_type ?? 'f16', found.kv_cells ?? found.context_length];
}

test('the context is what fits, up to the trained one, and begins with 8,192 cells', async () => {
  // 140 MB and 10 kB for each token, or 5 kB as Q8_0.
  assert.equal(await chosen(room(null), 131_072), [131_072, 'f16', 8192]);
  assert.equal(await chosen(room(2000 * MB), 131_072), [131_072, 'f16', 8192]);
  assert.equal(await chosen(room(1000 * MB), 131_072), [85_760, 'f16', 8192]);
  assert.equal(await chosen(room(468 * MB), 131_072), [32_768, 'f16', 8192]);
  // Q8_0 where it makes the difference.
  assert.equal(await chosen(room(467 * MB), 131_072), [65_280, 'q8_0', 8192]);
  assert.equal(await chosen(room(304 * MB), 131_072), [32_768, 'q8_0', 8192]);
  assert.equal(await chosen(room(303 * MB), 131_072), [16_128, 'f16', 8192]);
  assert.equal(await chosen(room(223 * MB), 131_072), [8192, 'f16', 8192]);
  // Not even the first step fits as F16.
  assert.equal(await chosen(room(221 * MB), 131_072), [16_128, 'q8_0', 8192]);
  assert.equal(await chosen(room(165 * MB), 131_072), [4864, 'q8_0', 4864]);
});

test('a model trained for less gets no more, and Q8_0 only if it helps', async () => {
  assert.equal(await chosen(room(null), 20_000), [20_224, 'f16', 8192]);
  assert.equal(await chosen(room(300 * MB), 20_000), [20_224, 'q8_0', 8192]);
  assert.equal(await chosen(room(400 * MB), 131_072, { quantizes: false }), [25_856, 'f16', 8192]);
  assert.equal(await chosen(room(400 * MB), 131_072, {}, { cache_type: 'f16' }), [25_856, 'f16', 8192]);
  assert.equal(await chosen(room(null), 50_000_000), [1_048_576, 'f16', 8192]);
});

test('the steps double, and each has its own memory', async () => {
  const { steps, isChosen } = await choose({}, room(null), {}, 0, 131_072);
  assert.equal(
    steps.map(({ cells, bytes }) => [cells, Math.round(bytes.host / MB)]),
    [8192, 16_384, 32_768, 65_536, 131_072].map((cells) => [cells, Math.round(140 + cells / 100)]),
  );
  assert.ok(isChosen);
});

test('a configured context is allocated at once', async () => {
  const { options, steps, isChosen } = await choose({ context_length: 20_480 }, room(null), {}, 0, 131_072);
  assert.equal(options, { context_length: 20_480 });
  assert.is(steps.length, 1);
  assert.not(isChosen);
});

test('a requested context is reached by Q8_0 if necessary, or refused with what fits', async () => {
  assert.equal(await chosen(room(700 * MB), 131_072, {}, {}, 50_000), [55_808, 'f16', 8192]);
  assert.equal(await chosen(room(700 * MB), 131_072, {}, {}, 100_000), [111_872, 'q8_0', 8192]);
  const error = await refusal(choose({}, room(700 * MB), {}, 120_000, 131_072));
  assert.match(error.message, /a context of 120064 tokens needs 1341 MB of RAM, and 700 MB are free/);
  assert.is(error.hint, 'a context of 55808 tokens fits: ask for at most 55808 tokens');
});

test('a refused context names what asked for it: the request, or the setting if that does not fit either', async () => {
  const hint = async (configured: number | undefined, atLeast: number, bound = room(200 * MB)): Promise<string> => {
    const options = configured === undefined ? {} : { context_length: configured };
    return (await refusal(choose(options, bound, {}, atLeast))).hint ?? '';
  };
  assert.is(await hint(undefined, 20_000), 'a context of 11776 tokens fits: ask for at most 11776 tokens');
  assert.is(await hint(4096, 20_000), 'a context of 11776 tokens fits: ask for at most 11776 tokens');
  const set = 'a context of 11776 tokens fits: svc config set models.one.context_length 11776';
  assert.is(await hint(16_384, 20_000), set);
  assert.is(await hint(16_384, 4096), set);
  assert.match(await hint(undefined, 20_000, room(120 * MB)), /not even a context of 2048 tokens fits/);
});

test('an embedding model gets the requested context at once, or is refused with what fits', async () => {
  const embeds = { embeds: true };
  assert.equal((await choose({}, room(null), embeds, 0, 32_768)).options, { context_length: 8192 });
  assert.equal((await choose({}, room(null), embeds, 20_000, 32_768)).options, { context_length: 20_224 });
  assert.equal((await choose({ context_length: 512 }, room(null), embeds, 1024, 32_768)).options, {
    context_length: 1024,
  });
  const error = await refusal(choose({}, room(300 * MB), embeds, 20_000, 32_768));
  assert.match(error.message, /a context of 20224 tokens needs 342 MB of RAM, and 300 MB are free/);
  assert.is(error.hint, 'a context of 8192 tokens fits: ask for at most 8192 tokens');
});

test('the layers stay on the GPU: the context is what fits beside them', async () => {
  const whole = await choose({}, room(null), { gpuFree: 400 * MB }, 0, 131_072);
  assert.is(whole.options.gpu_layers, undefined);
  // Q8_0 on the GPU: 110 MB, and 5 kB for each token.
  assert.equal([whole.options.context_length, whole.options.cache_type], [53_760, 'q8_0']);
  const some = await choose({}, room(null), { gpuFree: 100 * MB }, 0, 131_072);
  assert.is(some.options.gpu_layers, 6);
  assert.ok((some.options.context_length ?? 0) > 8192);
  assert.ok((some.steps.at(-1)?.bytes.devices.get('GPU') ?? 0) <= 95 * MB);
});

test.run();
