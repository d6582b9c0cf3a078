/** Verification: damage is reported with a hint, referenced files are kept, unreferenced ones deleted after a time. */
import { existsSync, renameSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, open, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { DigestsOnce } from '../../src/models/store/digest.ts';
import { collectLeftovers, UNFINISHED_MS, UNREFERENCED_MS } from '../../src/models/store/leftovers.ts';
import { RegistryFile } from '../../src/models/store/registry.ts';
import { StorePaths } from '../../src/models/store/store-paths.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import type { VerifyEvent, VerifyResult } from '../../src/protocol/model/verify.ts';
import { rejection } from '../support/errors.ts';
import { projectorPath } from '../support/media-files.ts';
import { splitGguf } from '../support/split-gguf.ts';

const TINY = fileURLToPath(new URL('../../build/models/tiny-llama.gguf', import.meta.url));
const OTHER = fileURLToPath(new URL('../../build/models/tiny-qwen2.gguf', import.meta.url));

type Verified = Extract<VerifyEvent, { type: 'verified' }>;

const test = suite<{
  dir: string;
  models: string;
  store: ModelStore;
  verify(name?: string): Promise<{ result: VerifyResult; models: Record<string, Verified> }>;
}>('verify');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-verify-'));
  context.models = join(context.dir, 'models');
  context.store = new ModelStore({ dir: context.models, builtinPath: builtinModelPath() });
  context.verify = async (name) => {
    const models: Record<string, Verified> = {};
    const result = await context.store.verify(name, (event) => {
      if (event.type === 'verified') models[event.model] = event;
    });
    return { result, models };
  };
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

/** Changes a byte in the middle of a file, keeping size and time, as a failing disk does. */
async function rot(path: string): Promise<void> {
  const { size, atime, mtime } = await stat(path);
  const file = await open(path, 'r+');
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, size - 1000);
  byte[0] = (byte[0] ?? 0) ^ 0xff;
  await file.write(byte, 0, 1, size - 1000);
  await file.close();
  await utimes(path, atime, mtime);
}

const digestName = (letter: string): string => `sha256-${letter.repeat(64)}`;

test('intact models are ok, and verifying an empty store creates nothing', async ({ store, models, verify }) => {
  assert.equal((await verify()).result, { type: 'finished', verified: 1, damaged: [], leftovers: null });
  assert.is(await stat(models).catch(() => null), null);
  await store.add(TINY, { name: 'here' });
  await store.add(TINY, { name: 'copy', copy: true });
  const { result, models: told } = await verify();
  assert.equal(result, {
    type: 'finished',
    verified: 3,
    damaged: [],
    leftovers: { removed: [], freed_bytes: 0, kept: [] },
  });
  assert.equal(
    Object.values(told).map(({ model, state, problems, hint }) => [model, state, problems, hint]),
    [
      ['here', 'ok', [], null],
      ['copy', 'ok', [], null],
      ['builtin', 'ok', [], null],
    ],
  );
});

test('progress counts the bytes of a model, up to its size', async ({ store }) => {
  await store.add(TINY, { name: 'copy', copy: true });
  const seen: Extract<VerifyEvent, { type: 'progress' }>[] = [];
  await store.verify('copy', (event) => {
    if (event.type === 'progress') seen.push(event);
  });
  const { size } = await stat(TINY);
  assert.ok(seen.length > 0);
  for (const { model, done_bytes, total_bytes } of seen) {
    assert.is(model, 'copy');
    assert.is(total_bytes, size);
    assert.ok(done_bytes > 0 && done_bytes <= size);
  }
});

test('a damaged copy is reported, refused for use and kept; adding the content again replaces it', async ({
  store,
  models,
  verify,
}) => {
  const { path, digest, size_bytes } = await store.add(TINY, { name: 'mine', copy: true });
  await rot(path);
  assert.is((await store.find('mine')).state, 'installed', 'nothing is known yet');
  const { result, models: told } = await verify('mine');
  assert.equal(result.damaged, ['mine']);
  assert.is(result.leftovers, null);
  assert.is(told['mine']?.problems[0]?.kind, 'digest');
  assert.is(told['mine']?.problems[0]?.file, path);
  assert.match(told['mine']?.hint ?? '', /svc model rm --yes mine/);
  assert.equal(await readdir(join(models, 'blobs')), [basename(path)]);
  const refused = await rejection(
    () => store.find('mine'),
    'MODEL_INVALID',
    /mine cannot be loaded: .*SHA-256 mismatch/,
  );
  assert.match(refused.hint ?? '', /svc model rm --yes mine/);
  assert.is((await store.list()).find(({ id }) => id === 'mine')?.state, 'failed');
  assert.equal(await store.held([{ digest: digest!, sizeBytes: size_bytes }]), [false], 'a pull would fetch it');

  await store.add(TINY, { copy: true });
  assert.is((await store.find('mine')).digest, digest);
  assert.equal((await verify()).result.damaged, []);
});

test('a pull reads a damaged file once, and until it is cancelled', async ({ store, verify }) => {
  const { path, digest, size_bytes } = await store.add(TINY, { name: 'mine', copy: true });
  await rot(path);
  await verify('mine');
  const files = [{ digest: digest!, sizeBytes: size_bytes }];
  const cancelled = new DigestsOnce(AbortSignal.abort(new Error('left')));
  const error = await store.held(files, cancelled).catch((thrown: unknown) => thrown);
  assert.is((error as Error).message, 'left');
  const digests = new DigestsOnce();
  assert.equal(await store.held(files, digests), [false]);
  await rot(path);
  assert.equal(await store.held(files, digests), [false], 'size and time are the same');
  assert.equal(await store.held(files, new DigestsOnce()), [true]);
});

test('a damaged pulled model names the pull command, which repairs it', async ({ dir, store, verify }) => {
  const fetched = async (): Promise<Parameters<ModelStore['adopt']>[0]> => {
    const path = join(dir, 'fetched');
    await copyFile(TINY, path);
    const { digest } = await store.add(TINY, { name: `known-${Math.random().toString(36).slice(2)}` });
    return {
      id: 'acme/tiny:Q4_0',
      isIdFixed: true,
      replaces: ({ source }) => source === 'hf:acme/tiny:Q4_0',
      aliases: [],
      source: 'hf:acme/tiny:Q4_0',
      license: null,
      weights: [{ digest: digest!, sizeBytes: (await stat(path)).size, path }],
      projector: null,
    };
  };
  const { path } = await store.adopt(await fetched());
  await rot(path);
  const { models } = await verify('acme/tiny');
  assert.is(models['acme/tiny:Q4_0']?.hint, 'pull it again: svc model pull hf:acme/tiny:Q4_0');
  await store.adopt(await fetched());
  assert.is((await verify('acme/tiny')).models['acme/tiny:Q4_0']?.state, 'ok');
  assert.is((await store.find('acme/tiny')).state, 'installed');
});

test('a model with a damaged or missing projector in the store is refused until the projector is added again', async ({
  store,
  verify,
}) => {
  for (const copy of [false, true]) {
    const id = copy ? 'copied' : 'here';
    const source = { copy, projector: projectorPath(copy ? 'clip' : 'siglip') };
    const { projector } = await store.add(TINY, { name: id, ...source });
    const path = projector?.path ?? '';
    const hint = `add it again with its projector: svc model add ${copy ? '--copy MODEL_FILE' : TINY} --projector FILE`;
    await rot(path);
    const told = (await verify(id)).models[id];
    assert.equal(
      told?.problems.map(({ kind, file }) => [kind, file]),
      [['digest', path]],
    );
    assert.is(told?.hint, hint);
    const refused = await rejection(() => store.find(id), 'MODEL_INVALID', /has changed since it was added/);
    assert.is(refused.hint, hint);

    await store.add(TINY, source);
    assert.is((await store.find(id)).state, 'installed');
    await rm(path);
    assert.is((await rejection(() => store.find(id), 'MODEL_NOT_FOUND', /there is no file .*sha256-/)).hint, hint);
    await store.add(TINY, source);
    assert.is((await verify(id)).models[id]?.state, 'ok');
  }
});

test('missing, truncated and replaced files are distinguished, each with its name', async ({ dir, store, verify }) => {
  const lay = async (name: string): Promise<string> => {
    const path = join(dir, `${name}.gguf`);
    await copyFile(TINY, path);
    await store.add(path);
    return path;
  };
  const [gone, short, changed] = [await lay('gone'), await lay('short'), await lay('changed')];
  await rm(gone);
  await writeFile(short, (await readFile(TINY)).subarray(0, 5000));
  await rot(changed);
  const { result, models } = await verify();
  assert.equal(result.damaged, ['gone', 'short', 'changed']);
  assert.equal(
    ['gone', 'short', 'changed'].map((id) => models[id]?.problems.map(({ kind, file }) => [kind, basename(file)])),
    [[['missing', 'gone.gguf']], [['size', 'short.gguf']], [['digest', 'changed.gguf']]],
  );
  assert.match(models['changed']?.hint ?? '', new RegExp(`svc model add ${changed}`));
});

test('intact content is ok, whatever the modification time of its file', async ({ dir, store, verify }) => {
  const parts = await splitGguf(TINY, join(dir, 'split'), 'tiny', { count: 2 });
  const { digest } = await store.add(parts[0]!, { name: 'split', copy: true });
  const { path } = await store.find('split');
  await utimes(path, new Date(0), new Date(0));
  assert.is((await store.find('split')).digest, null);
  assert.is((await verify('split')).models['split']?.state, 'ok');
  assert.is((await store.find('split')).digest, digest);
  await rot(path.replace('00001-of', '00002-of'));
  const { models } = await verify('split');
  assert.equal(
    models['split']?.problems.map(({ kind, file }) => [kind, basename(file)]),
    [['digest', 'model-00002-of-00002.gguf']],
  );
});

test('results that cannot be saved are returned, with the reason', async ({ store, models, verify }) => {
  const { path } = await store.add(TINY, { name: 'mine', copy: true });
  await rot(path);
  // A file in place of the lock's folder, too old to be a held lock: root, too, cannot make the lock.
  await writeFile(join(models, 'registry.lock'), '');
  await utimes(join(models, 'registry.lock'), new Date(0), new Date(0));
  const { warning, ...result } = (await verify()).result;
  assert.equal(result, { type: 'finished', verified: 2, damaged: ['mine'], leftovers: null });
  assert.match(warning ?? '', `cannot write to ${models}`);
});

test('registry data that contradicts the files is read again', async ({ store, models, verify }) => {
  await store.add(TINY, { name: 'mine', copy: true });
  const path = join(models, 'registry.json');
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replace('"quantization": "Q8_0"', '"quantization": "Q9_9"'));
  assert.is((await store.find('mine')).quantization, 'Q9_9');
  assert.is((await verify('mine')).models['mine']?.state, 'ok');
  assert.is((await store.find('mine')).quantization, 'Q8_0');
});

test('an unknown name, and a file that was not added, are refused', async ({ store }) => {
  await rejection(() => store.verify('nothing', () => undefined), 'MODEL_NOT_FOUND');
  const { hint } = await rejection(
    () => store.verify(`file:${TINY}`, () => undefined),
    'INVALID_REQUEST',
    /was not added/,
  );
  assert.match(hint ?? '', /svc model add/);
});

test('a file that a pull replaces during verification is not marked damaged for its old content', async ({
  dir,
  store,
  verify,
}) => {
  const { path } = await store.add(TINY, { name: 'mine', copy: true });
  const fresh = join(dir, 'fresh');
  await copyFile(TINY, fresh);
  await rot(path);
  const result = await store.verify('mine', ({ type }) => {
    if (type === 'progress' && existsSync(fresh)) renameSync(fresh, path);
  });
  assert.equal(result.damaged, ['mine']);
  assert.is((await store.find('mine')).state, 'installed');
  assert.equal((await verify()).result.damaged, []);
});

test('unfinished files are deleted after a day, unreferenced content after a week, and nothing else', async ({
  store,
  models,
}) => {
  const kept = await store.add(TINY, { name: 'mine', copy: true });
  const split = await splitGguf(OTHER, join(models, '..', 'split'), 'other', { count: 2 });
  const parts = await store.add(split[0]!, { name: 'parts', copy: true });
  const blobs = join(models, 'blobs');
  const stale = new Date(Date.now() - UNFINISHED_MS - 60_000);
  for (const name of ['.unfinished-1-old', '.unfinished-1-new', `${digestName('c')}.unfinished-7`, 'notes.txt']) {
    await writeFile(join(blobs, name), 'x'.repeat(10));
  }
  for (const name of ['.unfinished-1-old', `${digestName('c')}.unfinished-7`, 'notes.txt']) {
    await utimes(join(blobs, name), stale, stale);
  }
  await writeFile(join(blobs, digestName('a')), 'nobody names me');
  await utimes(join(blobs, digestName('a')), new Date(0), new Date(0));
  await mkdir(join(models, 'parts', digestName('b')));
  await writeFile(join(models, 'parts', digestName('b'), 'model-00001-of-00002.gguf'), 'nor me');

  const registry = new RegistryFile(models);
  const collect = async (now: number) =>
    await registry.update((state) => collectLeftovers(new StorePaths(models), state, now));
  const now = Date.now();
  const first = await collect(now);
  assert.equal(first.removed.map(({ path }) => basename(path)).sort(), [
    '.unfinished-1-old',
    `${digestName('c')}.unfinished-7`,
  ]);
  assert.is(first.freed_bytes, 20);
  assert.equal(first.kept.map(({ path }) => basename(path)).sort(), [digestName('a'), digestName('b')]);
  assert.is(first.kept[0]?.removed_after, new Date(now + UNREFERENCED_MS).toISOString());

  assert.equal(
    (await collect(now + UNREFERENCED_MS - 1000)).removed.map(({ path }) => basename(path)),
    ['.unfinished-1-new'],
  );
  const last = await collect(now + UNREFERENCED_MS + 1000);
  assert.equal(last.removed.map(({ path }) => basename(path)).sort(), [digestName('a'), digestName('b')]);
  assert.equal(await readdir(join(models, 'parts')), [basename(join(parts.path, '..'))]);
  assert.equal((await readdir(blobs)).sort(), [basename(kept.path), 'notes.txt'].sort());
  for (const id of ['mine', 'parts']) assert.is((await store.find(id)).state, 'installed');
});

test("in a folder that is also Ollama's nothing is written, moved or deleted", async ({ store, models, verify }) => {
  const { path } = await store.add(TINY, { name: 'mine', copy: true });
  await mkdir(join(models, 'manifests'));
  await writeFile(join(models, 'blobs', digestName('a')), 'of Ollama');
  const registry = await readFile(join(models, 'registry.json'), 'utf8');
  const refused = async (work: () => Promise<unknown>): Promise<void> => {
    const { hint } = await rejection(work, 'CONFIG_INVALID', /has models of Ollama/);
    assert.match(hint ?? '', /svc model import --from ollama/);
  };
  // Models that are there already still answer.
  assert.is((await store.find('mine')).state, 'installed');
  const { result } = await verify();
  assert.match(result.warning ?? '', /has models of Ollama/);
  assert.is(result.leftovers, null);
  await refused(() => store.remove('mine'));
  await refused(() => store.add(OTHER, { copy: true }));
  assert.is(await readFile(join(models, 'registry.json'), 'utf8'), registry);
  assert.equal((await readdir(join(models, 'blobs'))).sort(), [basename(path), digestName('a')].sort());

  await rm(join(models, 'registry.json'));
  await refused(() => store.list());
  await refused(() => store.add(OTHER));
  assert.equal((await readdir(models)).sort(), ['blobs', 'manifests']);
});

test('content that a model references again is kept', async ({ store, models }) => {
  const { path } = await store.add(TINY, { name: 'mine', copy: true });
  const registry = new RegistryFile(models);
  const collect = async (now: number) =>
    await registry.update((state) => collectLeftovers(new StorePaths(models), state, now));
  await copyFile(path, join(models, 'spare'));
  await store.remove('mine');
  await copyFile(join(models, 'spare'), path);
  const now = Date.now();
  assert.is((await collect(now)).kept.length, 1);
  await store.add(TINY, { name: 'mine', copy: true });
  assert.is((await collect(now + UNREFERENCED_MS)).kept.length, 0);
  assert.is((await store.find('mine')).state, 'installed');
});

test.run();
