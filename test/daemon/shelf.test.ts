/** Copies of models while the config cannot be written. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Shelf } from '../../src/daemon/models/shelf.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { NamedModels } from '../../src/models/store/named-models.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { rejection } from '../support/errors.ts';
import { makeHome } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';

const noProcfs = existsSync('/proc/self') ? undefined : 'there is no directory in which even root may not write';

unless(noProcfs, test)('a model is copied whole or not at all', async () => {
  const home = await makeHome();
  try {
    const modelsDir = join(home.dir, 'models');
    const installed = new ModelStore({ dir: modelsDir, builtinPath: builtinModelPath() });
    const paths = { configFile: '/proc/svc/config.json', cacheDir: join(home.dir, 'cache') };
    const models = async (): Promise<ModelRecord[]> => await installed.list();
    const options = { paths, modelsDir, installed, models, store: new NamedModels({ store: installed, names: {} }) };
    const shelf = new Shelf({ ...options, unload: async () => undefined, devices: () => [], reload: () => undefined });
    const tiny = await installed.add(modelPath('tiny-llama'), { name: 'tiny' });
    const ids = async (): Promise<string[]> => (await models()).map(({ id }) => id).filter((id) => id !== 'builtin');

    await shelf.copy(tiny, 'twin');
    assert.equal(await ids(), ['tiny', 'twin']);
    const settings = { system: 'Be brief.' };
    await rejection(async () => await shelf.copy({ ...tiny, settings }, 'third'), 'CANNOT_WRITE');
    assert.equal(await ids(), ['tiny', 'twin']);
  } finally {
    await home.remove();
  }
});

test.run();
