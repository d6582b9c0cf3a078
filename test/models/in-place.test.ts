/** Registering files of other programs where they lie, beside models that the user has added. */
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { prepare, register, type InPlaceOptions } from '../../src/models/store/in-place.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { rejection } from '../support/errors.ts';
import { gguf } from './raw-gguf.ts';

const test = suite<{
  dir: string;
  path: string;
  store: ModelStore;
  /** Registers the file, `path` by default, as LM Studio's; returns its id. */
  importFile(complete?: () => Promise<void>, file?: string): Promise<string>;
}>('in place');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-in-place-'));
  context.path = join(context.dir, 'x.gguf');
  context.store = new ModelStore({ dir: join(context.dir, 'models'), builtinPath: builtinModelPath() });
  await writeFile(context.path, gguf());
  context.importFile = async (complete, path = context.path) => {
    const options: InPlaceOptions = {
      registry: context.store.registry,
      reserved: [],
      check: () => Promise.resolve(null),
      planned: new Set(),
    };
    const model = { id: 'acme/x', source: 'lmstudio:acme/x', path, projector: null, adapters: [] };
    return (await register(await prepare(model, options), options, () => undefined, complete)).id;
  };
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

const idsOf = async (store: ModelStore): Promise<string[]> => (await store.list()).map(({ id }) => id);

test('a file that has changed is registered anew under its id', async ({ path, store, importFile }) => {
  assert.is(await importFile(), 'acme/x');
  await writeFile(path, gguf({ dataBytes: 4096 }));
  assert.is(await importFile(), 'acme/x');
  assert.equal(await idsOf(store), ['builtin', 'acme/x']);
});

test('a model whose file went to another path is registered anew under its id, which stays the default', async ({
  dir,
  path,
  store,
  importFile,
}) => {
  await importFile();
  await store.setDefault('acme/x');
  const moved = join(dir, 'sha256-2');
  await rename(path, moved);
  assert.is(await importFile(undefined, moved), 'acme/x', 'the same content');
  assert.is((await store.find()).path, moved);

  const newer = join(dir, 'sha256-3');
  await rm(moved);
  await writeFile(newer, gguf({ dataBytes: 4096 }));
  assert.is(await importFile(undefined, newer), 'acme/x', 'a newer version');
  assert.is((await store.find()).path, newer);

  await writeFile(newer, 'cut off');
  const whole = join(dir, 'sha256-4');
  await writeFile(whole, gguf({ dataBytes: 8192 }));
  assert.is(await importFile(undefined, whole), 'acme/x', 'the older file is damaged');
  assert.equal(await idsOf(store), ['builtin', 'acme/x']);
});

test('a model at another path is a further one while the file of the first is there', async ({
  dir,
  store,
  importFile,
}) => {
  await importFile();
  const other = join(dir, 'sha256-2');
  await writeFile(other, gguf({ dataBytes: 4096 }));
  assert.is(await importFile(undefined, other), 'acme/x-2');
  assert.equal(await idsOf(store), ['builtin', 'acme/x', 'acme/x-2']);
});

test('a model that the user has added stays, also if its file has changed', async ({ path, store, importFile }) => {
  await store.add(path, { name: 'mine' });
  await writeFile(path, gguf({ dataBytes: 4096 }));
  assert.is(await importFile(), 'acme/x');
  assert.equal(await idsOf(store), ['builtin', 'mine', 'acme/x']);
});

test('a model that cannot be completed is not registered, and its older version stays', async (context) => {
  const { path, store, importFile } = context;
  const fail = async (): Promise<void> => await Promise.reject(new SvcError('CANNOT_WRITE', 'cannot write the config'));
  await rejection(() => importFile(fail), 'CANNOT_WRITE');
  assert.equal(await idsOf(store), ['builtin']);
  await importFile();
  await writeFile(path, gguf({ dataBytes: 4096 }));
  await rejection(() => importFile(fail), 'CANNOT_WRITE');
  assert.equal(await idsOf(store), ['builtin', 'acme/x']);
});

test.run();
