/** Ids of pulled models: a pull replaces only a model from the same source. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { parseReference } from '../../../src/models/pull/reference.ts';
import { copyModel } from '../../../src/models/store/copy-model.ts';
import { prepare, register } from '../../../src/models/store/in-place.ts';
import type { ModelRecord } from '../../../src/protocol/records.ts';
import { rejection } from '../../support/errors.ts';
import { sha256 } from './fake-hub.ts';
import { full, KIB, lastOf, modelOf, NEVER, pullSuite, type PullContext } from './pull-support.ts';

const test = pullSuite('pulled ids');

/** Serves the content at `path` of the hub's store, and pulls it from that URL. */
async function pullUrl(context: PullContext, path: string, content: Buffer, query = ''): Promise<ModelRecord> {
  const { hub, puller, settings } = context;
  const [owner = '', repo = '', ...rest] = path.split('/');
  hub.add(`${owner}/${repo}`, rest.join('/'), content);
  const reference = full(parseReference(`${hub.storeOrigin}/${path}${query}`, sha256(content)));
  for await (const event of puller.pull(reference, ['mine'], settings, NEVER)) {
    if (event.type === 'pulled') return event.model;
  }
  throw new Error('the pull ended early');
}

const idsOf = async ({ store }: PullContext): Promise<string[]> => (await store.list()).map(({ id }) => id);

test('a file with the same name at another URL is another model', async (context) => {
  const [first, second, newer] = [1, 2, 3].map((seed) => modelOf(10 * KIB, seed)) as [Buffer, Buffer, Buffer];
  assert.is((await pullUrl(context, 'acme/a/model.gguf', first)).id, 'model');
  assert.is((await pullUrl(context, 'acme/b/model.gguf', second)).id, 'model-2');
  assert.equal(await readFile((await context.store.find('model')).path), first);

  const replaced = await pullUrl(context, 'acme/b/model.gguf', newer);
  assert.is(replaced.id, 'model-2');
  assert.equal(await readFile(replaced.path), newer);
  await context.store.remove('model');
  assert.is((await pullUrl(context, 'acme/b/model.gguf', newer)).id, 'model-2', 'it keeps its id');
  assert.equal(await idsOf(context), ['builtin', 'model-2']);
});

test('a query may choose the file, so another digest is another model', async (context) => {
  const [first, second] = [1, 2].map((seed) => modelOf(10 * KIB, seed)) as [Buffer, Buffer];
  assert.is((await pullUrl(context, 'acme/a/download', first, '?file=a.gguf')).id, 'download');
  assert.is((await pullUrl(context, 'acme/a/download', second, '?file=b.gguf')).id, 'download-2');
  assert.is((await pullUrl(context, 'acme/a/download', second, '?file=b.gguf')).id, 'download-2');
  assert.equal(await readFile((await context.store.find('download')).path), first);
});

test('the name of a copy, or an alias, is not taken by a file of that name', async (context) => {
  const { store, dir } = context;
  const own = modelOf(10 * KIB, 1);
  await writeFile(join(dir, 'own.gguf'), own);
  await store.add(join(dir, 'own.gguf'), { copy: true });
  assert.is((await pullUrl(context, 'acme/a/OWN.gguf', modelOf(10 * KIB, 2))).id, 'OWN-2');
  assert.equal(await readFile((await store.find('own')).path), own);
  assert.equal((await store.find('mine')).id, 'OWN-2');
  assert.is((await pullUrl(context, 'acme/a/mine.gguf', modelOf(10 * KIB, 3))).id, 'mine-2');
  assert.is((await store.find('mine')).id, 'OWN-2');
});

test('a copy of a pulled model under another name is not an older version', async (context) => {
  const { store, dir } = context;
  await pullUrl(context, 'acme/a/model.gguf', modelOf(10 * KIB, 1));
  await copyModel(join(dir, 'models'), 'model', 'kept');
  await store.remove('model');
  assert.is((await pullUrl(context, 'acme/a/model.gguf', modelOf(10 * KIB, 2))).id, 'model');
  assert.equal(await idsOf(context), ['builtin', 'kept', 'model']);
});

test('files of one name in two folders of a repository are two models', async (context) => {
  const { hub, pull, store } = context;
  const [small, large] = [1, 2].map((seed) => modelOf(10 * KIB, seed)) as [Buffer, Buffer];
  hub.add('acme/both', 'small/m-Q4_0.gguf', small);
  hub.add('acme/both', 'large/m-Q4_0.gguf', large);
  const first = lastOf(await pull('hf:acme/both:small/m-Q4_0.gguf')).model;
  const second = lastOf(await pull('hf:acme/both:large/m-Q4_0.gguf')).model;
  assert.equal([first.id, second.id], ['acme/both:small/m-Q4_0', 'acme/both:large/m-Q4_0']);
  assert.equal(await readFile((await store.find(first.id)).path), small);
});

test('a model of the hub is replaced by a newer version, named by file or by quantisation', async (context) => {
  const { hub, pull } = context;
  hub.add('acme/m', 'm-Q4_0.gguf', modelOf(10 * KIB, 1));
  await pull('hf:acme/m:m-Q4_0.gguf');
  const newer = modelOf(10 * KIB, 2);
  hub.add('acme/m', 'm-Q4_0.gguf', newer);
  const { model } = lastOf(await pull('hf:acme/m'));
  assert.equal([model.id, model.digest], ['acme/m:Q4_0', `sha256:${sha256(newer)}`]);
  assert.equal(await idsOf(context), ['builtin', 'acme/m:Q4_0']);
});

test('a pull by a name that another model has is refused before anything is fetched', async (context) => {
  const { hub, pull, store, dir } = context;
  hub.add('acme/m', 'm-Q4_0.gguf', modelOf(10 * KIB, 1));
  await writeFile(join(dir, 'own.gguf'), modelOf(10 * KIB, 2));
  await store.add(join(dir, 'own.gguf'), { copy: true });
  await copyModel(join(dir, 'models'), 'own', 'acme/m:q4_0');
  const { hint } = await rejection(() => pull('hf:acme/m'), 'INVALID_REQUEST', /a model with this name exists/);
  assert.is(hint, 'remove that one first: svc model rm acme/m:q4_0');
  assert.is(hub.sent, 0);
  assert.equal(await idsOf(context), ['builtin', 'own', 'acme/m:q4_0']);
});

test('a pull of a model that was imported is refused before anything is fetched', async (context) => {
  const { hub, pull, store, dir } = context;
  hub.add('acme/m', 'm-Q4_0.gguf', modelOf(10 * KIB, 1));
  const path = join(dir, 'm-Q4_0.gguf');
  await writeFile(path, modelOf(10 * KIB, 1));
  const check = (): Promise<null> => Promise.resolve(null);
  const options = { registry: store.registry, reserved: [], check, planned: new Set<string>() };
  const source = 'hf:acme/m:Q4_0';
  const model = { id: 'acme/m:Q4_0', source, path, projector: null, adapters: [] };
  await register(await prepare(model, options), options, () => undefined);
  const { hint } = await rejection(() => pull('hf:acme/m'), 'INVALID_REQUEST', /a model with this name exists/);
  assert.is(hint, 'remove that one first: svc model rm acme/m:Q4_0');
  assert.is(hub.sent, 0);

  await rm(path);
  const gone = await rejection(() => store.find('acme/m'), 'MODEL_NOT_FOUND');
  assert.match(gone.hint ?? '', /svc model rm acme\/m:Q4_0; to let svc keep a copy: svc model pull hf:acme\/m:Q4_0/);
  await store.remove('acme/m:Q4_0');
  assert.is(lastOf(await pull(source)).model.id, 'acme/m:Q4_0');
});

test.run();
