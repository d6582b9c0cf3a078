/** Installed models under the names of the config. */
import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { NamedModels } from '../../src/models/store/named-models.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { furtherNames, type ModelNames } from '../../src/protocol/model/settings.ts';
import { rejection } from '../support/errors.ts';
import { modelPath } from '../support/native-engine.ts';

interface Context {
  dir: string;
  store: ModelStore;
  named(names: ModelNames): NamedModels;
}
const test = suite<Context>('named models');

test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-names-'));
  context.store = new ModelStore({ dir: context.dir, builtinPath: builtinModelPath(), reserved: () => ['Mario'] });
  context.named = (names) => new NamedModels({ store: context.store, names });
  await context.store.add(modelPath('tiny-llama'), { name: 'Tiny' });
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

test('a name is listed as a model of its own, with the settings of its chain', async ({ named, store }) => {
  const models = named({
    mario: { from: 'plumber', sampling: { top_k: 5 } },
    plumber: { from: 'tiny', system: 'You are a plumber.', sampling: { top_k: 3, temperature: 0 } },
    Tiny: { context_length: 4096 },
  });
  const tiny = await store.find('Tiny');
  assert.equal(
    (await models.list()).map(({ id, from, default: isDefault, state }) => [id, from, isDefault, state]),
    [
      ['builtin', undefined, true, 'installed'],
      ['Tiny', undefined, false, 'installed'],
      ['mario', 'Tiny', false, 'installed'],
      ['plumber', 'Tiny', false, 'installed'],
    ],
  );
  const mario = await models.find('MARIO');
  const settings = { context_length: 4096, system: 'You are a plumber.', sampling: { top_k: 5, temperature: 0 } };
  assert.equal(mario, { ...tiny, id: 'mario', aliases: [], from: 'Tiny', settings });
  assert.equal((await models.find('tiny')).settings, { context_length: 4096 });
  assert.is((await models.find()).id, 'builtin');
  assert.equal(await models.find(`file:${modelPath('tiny-llama')}`), await models.find('Tiny'));
});

test('the setting that decides for a model is found by each of its names', async ({ named, store }) => {
  await store.registry.update(({ models }) => {
    for (const each of models) each.aliases = ['small'];
  });
  const models = named({
    long: { from: 'plumber', context_length: 8192 },
    mario: { from: 'plumber' },
    plumber: { from: 'tiny', cache_type: 'f16' },
    lost: { from: 'gone', cache_type: 'q8_0' },
    Small: { context_length: 4096 },
  });
  const settings = async (name: string): Promise<string[]> =>
    await Promise.all([models.settingOf(name, 'context_length'), models.settingOf(name, 'cache_type')]);
  assert.equal(await settings('long'), ['models.long.context_length', 'models.plumber.cache_type']);
  assert.equal(await settings('Mario'), ['models.Small.context_length', 'models.plumber.cache_type']);
  assert.equal(await settings('Tiny'), ['models.Small.context_length', 'engine.cache_type']);
  assert.equal(await settings('builtin'), ['engine.context_length', 'engine.cache_type']);
  assert.equal(await settings('lost'), ['engine.context_length', 'models.lost.cache_type']);
  assert.equal(await settings('nobody'), ['engine.context_length', 'engine.cache_type']);
});

test('a name can be the default model', async ({ named, store }) => {
  const models = named({ mario: { from: 'Tiny' } });
  await models.setDefault('Mario');
  assert.is((await models.find()).id, 'mario');
  assert.equal(
    (await models.list()).filter((each) => each.default).map(({ id }) => id),
    ['mario'],
  );
  assert.is((await models.find('builtin')).default, false);
  models.setNames({});
  assert.is((await models.find()).id, 'builtin', 'the name is gone');
  assert.is((await store.find()).id, 'builtin');
  await models.setDefault('tiny');
  assert.is((await models.find()).id, 'Tiny');
});

test('a name without its model is listed as failed, and refused with the reason', async ({ named }) => {
  const models = named({ lost: { from: 'gone' }, gone: { system: 'x' }, other: { system: 'y' } });
  assert.equal(
    (await models.list()).map(({ id, state }) => [id, state]),
    [
      ['builtin', 'installed'],
      ['Tiny', 'installed'],
      ['lost', 'failed'],
    ],
  );
  const error = await rejection(
    () => models.find('lost'),
    'MODEL_NOT_FOUND',
    /^lost cannot be used: the model "gone" is not installed$/,
  );
  assert.match(error.hint ?? '', /models\.lost\.from/);
  await rejection(() => models.find('other'), 'MODEL_NOT_FOUND', /there is no model "other"/);
});

test('a name hides an installed model of that id; a further model cannot get a name of the config', async ({
  named,
  store,
}) => {
  const models = named({ tiny: { from: 'builtin' } });
  assert.is((await models.find('Tiny')).path, builtinModelPath());
  assert.equal(
    (await models.list()).map(({ id, builtin }) => [id, builtin]),
    [
      ['builtin', true],
      ['tiny', false],
    ],
  );
  await rejection(
    () => store.add(modelPath('tiny-llama'), { name: 'mario' }),
    'INVALID_REQUEST',
    /the config gives the name mario/,
  );
});

test('a model without a name of its own gets another than one of the config, and a fixed id is refused', async ({
  dir,
  store,
}) => {
  const file = join(dir, 'mario.gguf');
  await copyFile(modelPath('tiny-llama'), file);
  assert.is((await store.add(file)).id, 'mario-2');
  assert.is((await store.add(file, { copy: true })).id, 'mario-3');
  const derived = { id: 'mario', isIdFixed: false, replaces: () => false };
  assert.is(await store.idFor(derived), 'mario-4');
  const { hint } = await rejection(
    () => store.idFor({ ...derived, isIdFixed: true }),
    'INVALID_REQUEST',
    /the config gives the name mario/,
  );
  assert.match(hint ?? '', 'svc model rm mario');
  const { size: sizeBytes } = await stat(file);
  const weights = [{ digest: `sha256:${'0'.repeat(64)}`, sizeBytes, path: file }];
  const fetched = { ...derived, source: 'file', license: null, weights, projector: null };
  assert.equal((await store.adopt({ ...fetched, aliases: ['MARIO', 'luigi'] })).aliases, ['luigi']);
});

test('a name of the config that is made from itself has the settings of that model, which may be installed', () => {
  assert.equal(furtherNames({ mario: { from: 'tiny' }, Tiny: { from: 'tiny' }, other: { system: 'x' } }), ['mario']);
});

test.run();
