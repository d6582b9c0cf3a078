/** Quantising models with the real libllama in a child process: results, errors, and no leftover files. */
import { copyFile, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { quantizeFile } from '../../src/engine/quantize-file.ts';
import { tryModel } from '../../src/engine/try-model.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { inspectGguf, readGgufHeader } from '../../src/models/gguf/gguf.ts';
import { prepare, register } from '../../src/models/store/in-place.ts';
import { quantizeModel, QUANTIZE_TYPES, type Quantizer } from '../../src/models/store/quantize.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { COMMON_TYPES, type QuantizeEvent } from '../../src/protocol/model/quantize.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { rejection } from '../support/errors.ts';
import { splitGguf } from '../support/split-gguf.ts';
import { projectorOf } from './pull/pull-support.ts';

const models = (name: string): string => fileURLToPath(new URL(`../../build/models/${name}.gguf`, import.meta.url));
const F16 = models('tiny-gemma');
const Q4 = models('tiny-qwen2');
const CRASHING = fileURLToPath(new URL('../support/crashing-engine.ts', import.meta.url));
const LOAD_MS = 120_000;
const NEVER = new AbortController().signal;

interface Asked {
  readonly type: string;
  readonly model?: string;
  readonly name?: string;
  readonly allow_requantize?: boolean;
}

const test = suite<{
  dir: string;
  store: ModelStore;
  events: QuantizeEvent[];
  quantize(asked: Asked, quantizer?: Quantizer, signal?: AbortSignal): Promise<ModelRecord>;
  /** Files in the store, except the registry. */
  blobs(): Promise<string[]>;
}>('quantize');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-quantize-'));
  context.store = new ModelStore({ dir: join(context.dir, 'models'), builtinPath: builtinModelPath() });
  context.events = [];
  context.quantize = (asked, quantizer = quantizeFile, signal = NEVER) =>
    quantizeModel(
      context.store,
      { model: `file:${F16}`, ...asked },
      quantizer,
      (event) => context.events.push(event),
      signal,
    );
  context.blobs = () => readdir(join(context.dir, 'models', 'blobs')).catch(() => []);
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

test('a copy of the requested type is stored with its size, and generates text', async ({
  store,
  events,
  quantize,
  blobs,
}) => {
  const source = await store.add(F16, { name: 'gemma' });
  const made = await quantize({ model: 'gemma', type: 'q8_0' });
  assert.is(made.id, 'gemma-q8_0');
  assert.is(made.quantization, 'Q8_0');
  assert.is(made.source, 'quantized:gemma');
  assert.is(made.parameters, source.parameters);
  assert.equal(await blobs(), [made.digest!.replace(':', '-')]);
  assert.equal(await store.find('gemma-q8_0'), made);
  assert.equal((await store.verify('gemma-q8_0', () => undefined)).damaged, []);

  const [planned] = events;
  assert.ok(planned?.type === 'planned');
  assert.is(planned.model, 'gemma-q8_0');
  const error = Math.abs(planned.expected_bytes - (await stat(made.path)).size);
  assert.ok(error < 64 * 1024, `${error} bytes off`);
  const progress = events.flatMap((event) => (event.type === 'progress' && event.stage === 'quantizing' ? event : []));
  const { tensors } = await readGgufHeader(F16);
  const total = tensors.reduce((sum, { bytes }) => sum + bytes, 0);
  assert.is(progress.at(-1)?.done_bytes, total);
  assert.is(progress.at(-1)?.total_bytes, total);
  assert.equal(events.at(-1), { type: 'quantized', model: made });
  await tryModel('made', made.path, LOAD_MS);
});

test('K-quants are used for the tensors that allow them, under the given name', async ({ quantize }) => {
  const made = await quantize({ type: 'Q4_K_M', name: 'small' });
  assert.is(made.id, 'small');
  assert.is(made.quantization, 'Q4_K_M');
  await tryModel('small', made.path, LOAD_MS);
});

test('a split model becomes one file', async ({ dir, store, quantize }) => {
  const parts = await splitGguf(F16, join(dir, 'split'), 'gemma', { count: 3 });
  await store.add(parts[0]!, { name: 'split' });
  const made = await quantize({ model: 'split', type: 'Q8_0' });
  assert.match(made.path, /blobs\/sha256-/);
  await tryModel('made', made.path, LOAD_MS);
});

test('the projector is copied into the store, whether it was imported or lies beside the model', async ({
  dir,
  store,
  quantize,
}) => {
  const [model, projector] = [join(dir, 'seer.gguf'), join(dir, 'mmproj-seer.gguf')];
  await copyFile(F16, model);
  await writeFile(projector, projectorOf(1000));
  const beside = await quantize({ model: `file:${model}`, type: 'Q8_0', name: 'beside' });
  await importModel(store, model, projector);
  const imported = await quantize({ model: 'seer', type: 'Q8_0', name: 'imported' });
  const again = await quantize({ model: 'imported', type: 'Q5_0', allow_requantize: true });
  await rm(projector);
  for (const { id, projector: copy } of [beside, imported, again]) {
    assert.equal(copy, imported.projector);
    assert.is((await store.find(id)).state, 'installed');
    assert.is((await stat(copy!.path)).size, copy!.size_bytes);
  }
});

test('a projector that has changed is refused before any work', async ({ dir, store, quantize, blobs }) => {
  const [model, projector] = [join(dir, 'seer.gguf'), join(dir, 'other.gguf')];
  await copyFile(F16, model);
  await writeFile(projector, projectorOf(1000));
  await importModel(store, model, projector);
  await writeFile(projector, projectorOf(1000, 2));
  const never: Quantizer = () => Promise.reject(new Error('it must not come to the work'));
  await rejection(() => quantize({ model: 'seer', type: 'Q8_0' }, never), 'MODEL_INVALID', /has changed since/);
  assert.equal(await blobs(), []);
});

test('a model that is quantised already needs explicit consent; its own type is refused', async ({
  quantize,
  blobs,
}) => {
  const model = `file:${Q4}`;
  const refused = await rejection(
    () => quantize({ model, type: 'Q8_0' }),
    'INVALID_REQUEST',
    /quantised already \(Q4_0\)/,
  );
  assert.match(refused.hint ?? '', /--allow-requantize/);
  await rejection(
    () => quantize({ model, type: 'Q4_0', allow_requantize: true }),
    'INVALID_REQUEST',
    /is Q4_0 already/,
  );
  assert.equal(await blobs(), []);
  const made = await quantize({ model, type: 'Q8_0', allow_requantize: true });
  assert.is(made.id, 'tiny-qwen2-q8_0');
  await tryModel('made', made.path, LOAD_MS);
});

test('an unknown type is refused with the list of types; types that need an importance matrix say so', async ({
  quantize,
}) => {
  const unknown = await rejection(() => quantize({ type: 'Q4_K_N' }), 'INVALID_REQUEST', /no type "Q4_K_N"/);
  assert.match(unknown.hint ?? '', /did you mean Q4_K_\w\? There are .*Q8_0/);
  const { hint } = await rejection(
    () => quantize({ type: 'iq2_xxs' }),
    'INVALID_REQUEST',
    /needs an importance matrix/,
  );
  assert.match(hint ?? '', /IQ4_XS/);
});

test('the types that a page offers can be made', () => {
  assert.equal(
    Object.keys(COMMON_TYPES).filter((type) => !QUANTIZE_TYPES.has(type)),
    [],
  );
});

test('types of every kind can be made', async ({ dir }) => {
  const output = join(dir, 'out.gguf');
  for (const type of ['F32', 'BF16', 'Q5_1', 'Q3_K_L', 'IQ4_NL', 'IQ3_M', 'TQ2_0']) {
    const file_type = QUANTIZE_TYPES.get(type) ?? -1;
    await quantizeFile({ input: F16, output, file_type, dry_run: false, signal: NEVER });
    assert.is((await inspectGguf(output)).quantization, type);
  }
});

test('a name in use is refused before any work', async ({ store, quantize, events }) => {
  await store.add(Q4, { name: 'Taken' });
  await rejection(
    () => quantize({ type: 'Q8_0', name: 'taken' }),
    'INVALID_REQUEST',
    /a model with this name exists: Taken/,
  );
  await rejection(() => quantize({ type: 'Q8_0', name: 'a/b' }), 'INVALID_REQUEST', /cannot be the name/);
  assert.equal(events, []);
});

test('a model that takes the name during the work is kept', async ({ store, quantize, blobs }) => {
  const taking: Quantizer = async (options) => {
    if (!options.dry_run) await store.add(Q4, { name: 'small', copy: true });
    return await quantizeFile(options);
  };
  await rejection(() => quantize({ type: 'Q8_0', name: 'Small' }, taking), 'INVALID_REQUEST', /exists: small/);
  const { digest, state } = await store.find('small');
  assert.is(state, 'installed');
  assert.equal(await blobs(), [digest!.replace(':', '-')]);
});

test('after a cancel the child is gone and no file remains', async ({ quantize, blobs, store }) => {
  const cancelled = new AbortController();
  const asked = quantizeWith((options) => ({
    ...options,
    onTensor: (name) => {
      options.onTensor?.(name);
      cancelled.abort(new SvcError('CANCELLED', 'enough'));
    },
  }));
  await rejection(() => quantize({ type: 'Q8_0' }, asked, cancelled.signal), 'CANCELLED', /enough/);
  assert.equal(await blobs(), []);
  assert.equal(
    (await store.list()).map(({ id }) => id),
    ['builtin'],
  );
});

test('a crash of the child is an error, and no file remains', async ({ quantize, blobs }) => {
  const asked = quantizeWith((options) => (options.dry_run ? options : { ...options, entry: CRASHING }));
  await rejection(() => quantize({ type: 'Q8_0' }, asked), 'ENGINE_CRASHED', /quantize process was ended by SIG/);
  assert.equal(await blobs(), []);
});

test('a lack of disk space is reported before anything is written', async ({ quantize, blobs }) => {
  const huge: Quantizer = async (options) => {
    assert.ok(options.dry_run, 'it must not come to the work');
    return await Promise.resolve(2 ** 50);
  };
  await rejection(() => quantize({ type: 'Q8_0' }, huge), 'CANNOT_WRITE', /GB free, 11259\d\d\.\d+ GB needed/);
  assert.equal(await blobs(), []);
});

test('the output of libllama is accepted only if it has the requested type', async ({ quantize, blobs }) => {
  const other = quantizeWith((options) => ({ ...options, file_type: 2 }));
  await rejection(() => quantize({ type: 'Q8_0' }, other), 'MODEL_INVALID', /is not .*tiny-gemma.* as Q8_0/);
  assert.equal(await blobs(), []);
});

test('an error of libllama is reported with its reason', async ({ dir }) => {
  const options = { output: join(dir, 'out'), file_type: 7, dry_run: false, signal: NEVER };
  await rejection(() => quantizeFile({ ...options, input: join(dir, 'none') }), 'MODEL_INVALID', /cannot be quantised/);
  await rejection(() => quantizeFile({ ...options, input: Q4 }), 'MODEL_INVALID', /requantizing from type q4_0/);
  await rejection(() => quantizeFile({ ...options, input: F16, file_type: 999 }), 'MODEL_INVALID', /invalid output/);
});

/** Registers the files where they lie, as `seer`. */
async function importModel({ registry }: ModelStore, path: string, projector: string): Promise<void> {
  const check = (): Promise<null> => Promise.resolve(null);
  const options = { registry, reserved: [], check, planned: new Set<string>() };
  const model = { id: 'seer', source: 'ollama:seer', path, projector, adapters: [] };
  await register(await prepare(model, options), options, () => undefined);
}

function quantizeWith(
  change: (options: Parameters<typeof quantizeFile>[0]) => Parameters<typeof quantizeFile>[0],
): Quantizer {
  return (options) => quantizeFile(change(options));
}

test.run();
