/** Split models: from the parts to a token, wherever the parts are, and errors for parts that do not match. */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { tryModel } from '../../src/engine/try-model.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { inspectGguf, inspectParts } from '../../src/models/gguf/gguf.ts';
import { filesOfModel } from '../../src/models/gguf/parts.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { rejection } from '../support/errors.ts';
import { splitGguf } from '../support/split-gguf.ts';

const TINY = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));
const LOAD_MS = 120_000;

const test = suite<{ dir: string; models: string; store: ModelStore; parts: string[] }>('parts');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-parts-'));
  context.models = join(context.dir, 'models');
  context.store = new ModelStore({ dir: context.models, builtinPath: builtinModelPath() });
  context.parts = await splitGguf(TINY, join(context.dir, 'mine'), 'tiny', { count: 3 });
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

test('the parts together give the same description as the whole file', async ({ dir, parts }) => {
  const whole = await inspectGguf(TINY);
  const { size_bytes: _size, modified_at_ms: _time, ...said } = await inspectParts(parts);
  const { size_bytes: _wholeSize, modified_at_ms: _wholeTime, ...expected } = whole;
  assert.equal(said, expected);
  const sparse = await splitGguf(TINY, join(dir, 'sparse'), 'tiny', { count: 3, isFirstEmpty: true });
  assert.is((await inspectParts(sparse)).parameters, whole.parameters);
});

test('any part names the model, which stays in its folder, and loads', async ({ store, models, parts }) => {
  const record = await store.add(parts[1]!);
  assert.is(record.id, 'tiny');
  assert.is(record.path, parts[0]);
  const sizes = await Promise.all(parts.map(async (part) => (await stat(part)).size));
  assert.is(
    record.size_bytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  assert.is(record.parameters, (await inspectGguf(TINY)).parameters);
  assert.equal(await readdir(models), ['registry.json']);
  assert.equal(await store.find('tiny'), record);
  assert.is((await store.add(parts[2]!)).id, 'tiny', 'the same model');
  await tryModel('tiny', record.path, LOAD_MS);
  await store.remove('tiny');
  assert.is((await readdir(dirname(parts[0]!))).length, 3);
});

test('a copy puts all parts into the store under names that libllama finds; removal deletes them all', async ({
  store,
  models,
  parts,
}) => {
  const record = await store.add(parts[0]!, { copy: true, name: 'mine' });
  assert.match(record.path, /models\/parts\/sha256-[0-9a-f]{64}\/model-00001-of-00003\.gguf$/);
  await rm(dirname(parts[0]!), { recursive: true });
  assert.is((await store.find('mine')).state, 'installed');
  await tryModel('mine', record.path, LOAD_MS);
  await store.remove('mine');
  assert.equal(await readdir(join(models, 'parts')), []);
  assert.equal(await readdir(join(models, 'blobs')), []);
});

test('a model whose first part has no tensors loads too', async ({ dir, store }) => {
  const parts = await splitGguf(TINY, join(dir, 'sparse'), 'sparse', { count: 2, isFirstEmpty: true });
  const { path } = await store.add(parts[0]!);
  await tryModel('sparse', path, LOAD_MS);
});

test('a path to any part can be used as the model without adding it', async ({ store, parts }) => {
  const record = await store.find(`file:${parts[1]!}`);
  assert.is(record.path, parts[0]);
  assert.is(record.parameters, (await inspectGguf(TINY)).parameters);
});

test('a missing, renamed or foreign part is reported', async ({ dir, store, parts }) => {
  const [first = '', second = '', third = ''] = parts;
  await rename(third, `${third}.away`);
  await rejection(
    () => store.add(first),
    'MODEL_NOT_FOUND',
    /part 3 of 3 is missing: there is no file .*00003-of-00003/,
  );
  await rename(second, third);
  await rename(`${third}.away`, second).catch(() => undefined);
  await rejection(() => store.add(first), 'MODEL_INVALID', /claims to be part \d/);

  const odd = join(dir, 'odd.gguf');
  await mkdir(dirname(odd), { recursive: true });
  await rename(first, odd);
  await rejection(() => store.add(odd), 'MODEL_INVALID', /one of the 3 parts of a model, but is not named like one/);

  const other = await splitGguf(TINY, join(dir, 'other'), 'tiny', { count: 2 });
  await rename(other[1]!, `${other[1]!}.away`);
  await writeFile(other[1]!, 'no part');
  await rejection(() => store.add(other[0]!), 'MODEL_INVALID', /not a GGUF file/);
});

test('a single part is not a model', async ({ parts }) => {
  await rejection(() => inspectParts([parts[0]!]), 'MODEL_INVALID', /claims to be part 1 of 3, but is number 1 of 1/);
  await rejection(
    () => inspectParts(parts.slice(0, 2)),
    'MODEL_INVALID',
    /claims to be part 1 of 3, but is number 1 of 2/,
  );
  await rejection(
    () => inspectParts([parts[1]!, parts[0]!, parts[2]!]),
    'MODEL_INVALID',
    /claims to be part 2 of 3, but is number 1 of 3/,
  );
  assert.equal(await filesOfModel(TINY), [TINY]);
});

test('parts with a changed modification time are read again and stay valid', async ({ store, parts }) => {
  await store.add(parts[0]!);
  await writeFile(parts[0]!, await readFile(parts[0]!));
  const record = await store.find('tiny');
  assert.is(record.digest, null);
  assert.is(record.state, 'installed');
});

test.run();
