/** Describes models by their files, and copies them while the config cannot be written. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Shelf } from '../../src/daemon/models/shelf.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { NamedModels } from '../../src/models/store/named-models.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';
import { writeInfillModel } from '../support/infill-model.ts';
import { projectorPath } from '../support/media-files.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';

const noProcfs = existsSync('/proc/self') ? undefined : 'there is no directory in which even root may not write';

function shelfIn(home: Home): { readonly shelf: Shelf; readonly installed: ModelStore } {
  const modelsDir = join(home.dir, 'models');
  const installed = new ModelStore({ dir: modelsDir, builtinPath: builtinModelPath() });
  const paths = { configFile: '/proc/svc/config.json', cacheDir: join(home.dir, 'cache') };
  const models = async (): Promise<ModelRecord[]> => await installed.list();
  const options = { paths, modelsDir, installed, models, store: new NamedModels({ store: installed, names: {} }) };
  const shelf = new Shelf({ ...options, unload: async () => undefined, devices: () => [], reload: () => undefined });
  return { shelf, installed };
}

test('a description has the metadata of the projector, and says if the model fills gaps', async () => {
  const home = await makeHome();
  try {
    const { shelf, installed } = shelfIn(home);
    const sees = await installed.add(modelPath('tiny-llama'), { name: 'sees', projector: projectorPath('clip') });
    const { projector, fillsGaps, metadata, template } = await shelf.describe(sees);
    assert.is(projector?.['clip.has_vision_encoder'], true);
    assert.equal([fillsGaps, metadata['general.architecture'], typeof template], [false, 'llama', 'string']);

    const file = join(home.dir, 'infill.gguf');
    await writeInfillModel(file);
    const byKey = await shelf.describe(await installed.add(file));
    assert.equal([byKey.fillsGaps, byKey.projector], [true, null]);
    const whole = (await readFile(modelPath('tiny-qwen2'))).toString('latin1');
    const renamed = join(home.dir, 'renamed.gguf');
    await writeFile(renamed, Buffer.from(whole.replaceAll('<|im_start|>', '<fim_middle>'), 'latin1'));
    const byText = await shelf.describe(await installed.add(renamed));
    assert.is(byText.fillsGaps, true);
    const plain = await shelf.describe(await installed.add(modelPath('tiny-qwen2')));
    assert.is(plain.fillsGaps, false);
  } finally {
    await home.remove();
  }
});

unless(noProcfs, test)('a model is copied whole or not at all', async () => {
  const home = await makeHome();
  try {
    const { shelf, installed } = shelfIn(home);
    const tiny = await installed.add(modelPath('tiny-llama'), { name: 'tiny' });
    const ids = async (): Promise<string[]> =>
      (await installed.list()).map(({ id }) => id).filter((id) => id !== 'builtin');

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
