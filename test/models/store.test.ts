/** The model store over real files: contents, errors, and concurrent processes. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { triedFields } from '../../src/protocol/records.ts';
import { rejection } from '../support/errors.ts';
import { projectorPath } from '../support/media-files.ts';
import { gguf, LLAMA, numberEntry, partEntries, textEntry } from './raw-gguf.ts';

const TINY = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));
const ADD = fileURLToPath(new URL('add-models.ts', import.meta.url));

const test = suite<{
  dir: string;
  models: string;
  store: ModelStore;
  file(name: string, bytes?: Uint8Array): Promise<string>;
}>('store');

test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-store-'));
  context.models = join(context.dir, 'models');
  context.store = new ModelStore({ dir: context.models, builtinPath: builtinModelPath() });
  context.file = async (name, bytes = gguf()) => {
    const path = join(context.dir, name);
    await writeFile(path, bytes);
    return path;
  };
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;
const idsOf = async (store: ModelStore): Promise<string[]> => (await store.list()).map(({ id }) => id);
const digestOf = async (path: string): Promise<string> =>
  `sha256:${createHash('sha256')
    .update(await readFile(path))
    .digest('hex')}`;

test('the built-in model is listed in an empty store, and nothing is written for it', async ({ store, models }) => {
  const [builtin, ...others] = await store.list();
  assert.equal(others, []);
  assert.equal(
    [builtin!.id, builtin!.source, builtin!.builtin, builtin!.default, builtin!.state, builtin!.license],
    ['builtin', 'builtin', true, true, 'installed', 'MIT'],
  );
  assert.is(builtin!.digest, await digestOf(builtinModelPath()));
  assert.equal(await store.find(), builtin);
  assert.is(existsSync(models), false);
});

test('an added model stays in its place', async ({ store, models }) => {
  const progress: number[] = [];
  const record = await store.add(TINY, { onProgress: (done, total) => progress.push(done / total) });
  const { size, mtimeMs } = await stat(TINY);
  assert.equal(record, {
    id: 'tiny-llama',
    aliases: [],
    source: 'file',
    path: TINY,
    digest: await digestOf(TINY),
    size_bytes: size,
    format: 'gguf',
    architecture: 'llama',
    parameters: 4_489_856,
    quantization: 'Q8_0',
    context_length: 8192,
    capabilities: ['chat', 'completion'],
    capabilities_tried: false,
    license: 'MIT',
    state: 'installed',
    default: false,
    builtin: false,
    // Not `mtime`: Node rounds it up to the next millisecond, while other tools truncate.
    modified_at: new Date(mtimeMs).toISOString(),
    loaded: null,
  });
  assert.is(progress.at(-1), 1);
  assert.equal(await new ModelStore({ dir: models, builtinPath: builtinModelPath() }).find('tiny-llama'), record);
  assert.equal(await readdir(models), ['registry.json']);
  await store.remove('tiny-llama');
  assert.is((await stat(TINY)).size, size);
  assert.equal(await idsOf(store), ['builtin']);
});

test('a copied model outlives its original and is deleted when removed', async ({ store, models, file }) => {
  const path = await file('mine.gguf');
  const record = await store.add(path, { copy: true });
  await rm(path);
  assert.is(record.path, join(models, 'blobs', record.digest!.replace(':', '-')));
  assert.is((await store.find('mine')).state, 'installed');
  assert.is(await digestOf(record.path), record.digest);
  await store.remove('mine');
  assert.equal(await readdir(join(models, 'blobs')), []);
});

test('two names for the same copied content share it until the last is removed', async ({ store, models, file }) => {
  const path = await file('mine.gguf');
  await store.add(path, { copy: true });
  await store.add(path, { copy: true });
  await store.add(path, { copy: true, name: 'other' });
  assert.equal(await idsOf(store), ['builtin', 'mine', 'other']);
  assert.is((await readdir(join(models, 'blobs'))).length, 1);
  await store.remove('mine');
  assert.is((await store.find('other')).state, 'installed');
  await store.remove('other');
  assert.equal(await readdir(join(models, 'blobs')), []);
});

test('names may be given, are derived otherwise, and must be unused', async ({ store, dir, file }) => {
  const first = await file('model.gguf');
  await mkdir(join(dir, 'second'));
  const second = join(dir, 'second', 'model.gguf');
  await copyFile(first, second);
  assert.is((await store.add(first)).id, 'model');
  assert.is((await store.add(second)).id, 'model-2');
  assert.is((await store.add(first)).id, 'model');
  assert.is((await store.add(first, { name: 'Third' })).id, 'Third');
  await rejection(
    () => store.add(second, { name: 'third' }),
    'INVALID_REQUEST',
    /a model with this name exists: Third/,
  );
  await rejection(() => store.add(second, { name: '../x' }), 'INVALID_REQUEST');
  await rejection(() => store.add(second, { name: 'builtin' }), 'INVALID_REQUEST', /built-in/);
  assert.equal(await idsOf(store), ['builtin', 'model', 'model-2', 'Third']);
});

test('a file that is added again keeps what belongs to its models', async ({ store, dir, models, file }) => {
  const path = await file('mine.gguf');
  await writeFile(join(dir, 'mmproj'), gguf({ entries: [textEntry('general.architecture', 'clip')] }));
  await store.add(path, { projector: join(dir, 'mmproj') });
  await store.add(path, { name: 'other' });
  await store.registry.update((registry) => {
    Object.assign(registry.models[0]!, { aliases: ['alias'], source: 'ollama:mine' });
    Object.assign(registry.models[1]!, { aliases: ['further'], source: 'hf:acme/other' });
  });
  await writeFile(path, gguf({ dataBytes: 4096 }));
  const again = await store.add(path);
  assert.equal(again, await store.find('alias'));
  assert.equal([again.id, again.source, again.aliases], ['mine', 'ollama:mine', ['alias']]);
  const projector = again.projector?.digest?.replace(':', '-');
  assert.equal(await readdir(join(models, 'blobs')), [projector]);
  const other = await store.find('further');
  assert.equal([other.id, other.source, other.digest], ['other', 'hf:acme/other', again.digest]);
});

test('a model is found by name in any case and by path; similar names are suggested', async ({ store, file }) => {
  const path = await file('qwen-small.gguf');
  await store.add(path);
  assert.is((await store.find('Qwen-Small')).id, 'qwen-small');
  assert.is((await store.find(`file:${path}`)).id, 'qwen-small');
  const other = await file('other.gguf');
  assert.equal(
    [(await store.find(`file:${other}`)).id, (await store.find(`file:${other}`)).path],
    [`file:${other}`, other],
  );
  const { hint } = await rejection(() => store.find('qwen-smal'), 'MODEL_NOT_FOUND', /no model "qwen-smal"/);
  assert.is(hint, 'did you mean qwen-small?');
  assert.match((await rejection(() => store.find('zzz'), 'MODEL_NOT_FOUND')).hint ?? '', /svc model list/);
  await rejection(() => store.find(`file:${other}x`), 'MODEL_NOT_FOUND', /no file/);
  await rejection(() => store.find('file:other.gguf'), 'INVALID_REQUEST', /not an absolute path/);
});

test('what a load found belongs to the content of the file and to the version that loaded it', async (context) => {
  const { dir, models, file } = context;
  const tried = join(dir, 'capabilities.json');
  const open = (version = '1', path = tried): ModelStore =>
    new ModelStore({ dir: models, builtinPath: builtinModelPath(), tried: { path, version } });
  const of = async (store: ModelStore, name: string): Promise<unknown[]> => {
    const { capabilities, capabilities_tried } = await store.find(name);
    return [...capabilities, capabilities_tried];
  };
  const path = await file('mine.gguf');
  const vectors = await file('vectors.gguf', gguf({ entries: [LLAMA, numberEntry('llama.pooling_type', 1)] }));
  for (const each of [path, vectors]) await open().add(each);
  assert.equal(await of(open(), 'mine'), ['completion', false]);

  const writer = open();
  await writer.noteLoad(path, ['tools', 'thinking']);
  await writer.noteLoad(vectors, []);
  await writer.noteLoad(builtinModelPath(), ['tools']);
  await writer.noteLoad(await file('other.gguf'), ['tools']);
  for (const store of [writer, open()]) {
    assert.equal(await of(store, 'mine'), ['completion', 'tools', 'thinking', true]);
    assert.equal(await of(store, 'vectors'), [true], 'its vectors were tried and not found');
    assert.equal(await of(store, 'builtin'), ['chat', 'completion', 'tools', true]);
    const record = await store.find('mine');
    assert.equal((await store.list())[1], record);
    assert.equal(triedFields(record.capabilities, ['tools']).capabilities, ['completion', 'tools'], 'a later load');
  }
  assert.equal(await readdir(models), ['registry.json'], 'nothing is written among the models');
  assert.equal(await of(open('2'), 'mine'), ['completion', false]);

  await writeFile(tried, '{"version": "1", "models": {"sha256');
  assert.equal(await of(open(), 'mine'), ['completion', false]);
  const nowhere = open('1', join(dir, 'none', 'capabilities.json'));
  assert.is(await nowhere.noteLoad(path, ['tools']).catch((error: unknown) => codeOf(error)), 'ENOENT');
  assert.equal(await of(nowhere, 'mine'), ['completion', 'tools', true], 'it is kept in memory');

  await writeFile(path, gguf({ dataBytes: 4096 }));
  assert.equal(await of(writer, 'mine'), ['completion', false]);
  await writer.noteLoad(path, ['tools']);
  assert.equal(await of(writer, 'mine'), ['completion', false], 'a file with changed content has no digest');
});

test('the default stays as set until that model is removed', async ({ store, file }) => {
  const path = await file('mine.gguf');
  await store.add(path);
  await store.setDefault('MINE');
  assert.is((await store.find()).id, 'mine');
  assert.equal(
    (await store.list()).map((model) => model.default),
    [false, true],
  );
  await rejection(() => store.setDefault('nothing'), 'MODEL_NOT_FOUND');
  await rejection(() => store.setDefault(`file:${path}`), 'INVALID_REQUEST', /was added/);
  await store.setDefault('builtin');
  assert.is((await store.find()).id, 'builtin');
  await store.setDefault('mine');
  await store.remove('mine');
  assert.is((await store.find()).id, 'builtin');
});

test('the built-in model cannot be removed, and an unknown model is an error', async ({ store, dir, models }) => {
  await rejection(() => store.remove('builtin'), 'INVALID_REQUEST', /cannot be removed/);
  const without = new ModelStore({ dir: models, builtinPath: join(dir, 'none.gguf') });
  assert.is((await without.list())[0]!.state, 'failed');
  await rejection(() => without.find(), 'MODEL_NOT_FOUND', /built-in model cannot be loaded: there is no file/);
});

test('a file that was removed, changed or damaged after adding is detected', async ({ store, file }) => {
  const path = await file('mine.gguf');
  const { digest } = await store.add(path);

  await utimes(path, 1, 1);
  const touched = await store.find('mine');
  assert.equal([touched.state, touched.digest, touched.modified_at], ['installed', null, '1970-01-01T00:00:01.000Z']);
  assert.is((await store.add(path)).digest, digest);

  await writeFile(path, gguf({ entries: [LLAMA, numberEntry('llama.context_length', 99)] }));
  assert.is((await store.find('mine')).context_length, 99);

  await writeFile(path, 'no model any more');
  assert.is((await store.list())[1]!.state, 'failed');
  await rejection(() => store.find('mine'), 'MODEL_INVALID', /mine cannot be loaded: .*not a GGUF file/);

  await rename(path, `${path}.away`);
  assert.is((await store.list())[1]!.state, 'failed');
  const { hint } = await rejection(
    () => store.find('mine'),
    'MODEL_NOT_FOUND',
    /mine cannot be loaded: there is no file/,
  );
  assert.match(hint ?? '', /svc model rm mine/);
});

test('a file that is not a model is refused and leaves nothing behind', async ({ store, models, file }) => {
  const broken = await file('broken.gguf', gguf({ dataBytes: 1 }));
  await rejection(() => store.add(broken), 'MODEL_INVALID', /cut short/);
  await rejection(() => store.add(broken, { copy: true }), 'MODEL_INVALID', /cut short/);
  const part = await file('part.gguf', gguf({ entries: [LLAMA, ...partEntries(0, 3, 3)] }));
  await rejection(() => store.add(part), 'MODEL_INVALID', /one of the 3 parts of a model, but is not named like one/);
  await rejection(() => store.add('no such file'), 'MODEL_NOT_FOUND');
  assert.equal(await idsOf(store), ['builtin']);
  assert.equal(await readdir(models).catch(() => []), []);
});

test('a damaged registry is an error and is not changed', async ({ store, models, file }) => {
  const path = await file('mine.gguf');
  await store.add(path);
  const registry = join(models, 'registry.json');
  for (const damaged of [
    '',
    '{"version":1,',
    '[]',
    '{"version":2,"default":null,"models":[]}',
    (await readFile(registry, 'utf8')).replace('sha256:', '../'),
  ]) {
    await writeFile(registry, damaged);
    await rejection(() => store.list(), 'CONFIG_INVALID', /registry\.json is damaged/);
    await rejection(() => store.add(path), 'CONFIG_INVALID');
    await rejection(() => store.remove('mine'), 'CONFIG_INVALID');
    assert.is(await readFile(registry, 'utf8'), damaged);
  }
});

test('an unwritable store is reported', async ({ store, models, file }) => {
  const path = await file('mine.gguf');
  await writeFile(models, 'a file where the folder should be');
  await rejection(() => store.add(path), 'CANNOT_WRITE', /cannot write to/);
  await rejection(() => store.add(path, { copy: true }), 'CANNOT_WRITE', /cannot write to/);
});

test('only the owner may access the registry', async ({ store, models, file }) => {
  await store.add(await file('mine.gguf'), { copy: true });
  assert.is((await stat(models)).mode & 0o777, 0o700);
  assert.is((await stat(join(models, 'registry.json'))).mode & 0o777, 0o600);
  assert.is((await stat((await store.find('mine')).path)).mode & 0o777, 0o600);
});

test('four processes that add concurrently lose nothing', async ({ store, models, file }) => {
  const PROCESSES = 4;
  const EACH = 8;
  const path = await file('mine.gguf');
  const add = (process: number): Promise<unknown> =>
    promisify(execFile)(globalThis.process.execPath, [
      '--import',
      'tsx',
      ADD,
      models,
      path,
      `p${process}`,
      String(EACH),
    ]);
  await Promise.all(Array.from({ length: PROCESSES }, (_, process) => add(process)));
  assert.is((await store.list()).length, 1 + PROCESSES * EACH);
  assert.equal(await readdir(models), ['registry.json']);
});

test('each change of the list is reported once it is written; what changes nothing is not', async ({ dir, models }) => {
  const lists: string[][] = [];
  const seen: Promise<unknown>[] = [];
  const store: ModelStore = new ModelStore({
    dir: models,
    builtinPath: builtinModelPath(),
    onChange: () => {
      seen.push(store.list().then((all) => lists.push(all.map(({ id }) => id))));
    },
  });
  await store.add(TINY, { name: 'one' });
  await Promise.all(seen);
  assert.equal(lists, [['builtin', 'one']]);
  await store.add(TINY, { projector: projectorPath('clip') });
  assert.is(seen.length, 3, 'the model is read again, and gets a projector');
  await store.list();
  await rejection(() => store.remove('two'), 'MODEL_NOT_FOUND');
  await rejection(() => store.add(join(dir, 'none.gguf')), 'MODEL_NOT_FOUND');
  assert.is(seen.length, 3);
  await store.remove('one');
  await Promise.all(seen);
  assert.equal(lists.at(-1), ['builtin']);
});

test.run();
