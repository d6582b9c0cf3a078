/** Registering files of other programs where they lie, beside models that the user has added. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
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
  /** Registers the file at `path` as LM Studio's; returns its id. */
  importFile(complete?: () => Promise<void>): Promise<string>;
}>('in place');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-in-place-'));
  context.path = join(context.dir, 'x.gguf');
  context.store = new ModelStore({ dir: join(context.dir, 'models'), builtinPath: builtinModelPath() });
  await writeFile(context.path, gguf());
  context.importFile = async (complete) => {
    const options: InPlaceOptions = {
      registry: context.store.registry,
      reserved: [],
      check: () => Promise.resolve(null),
      planned: new Set(),
    };
    const model = { id: 'acme/x', source: 'lmstudio:acme/x', path: context.path, projector: null, adapters: [] };
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
