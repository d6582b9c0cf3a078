/** Describes models by their files, and copies them while the config cannot be written. */
import { existsSync, readFileSync } from 'node:fs';
import { readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Shelf } from '../../src/daemon/models/shelf.ts';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { NamedModels } from '../../src/models/store/named-models.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { arrayEntry, gguf, LLAMA, string, textEntry } from '../models/raw-gguf.ts';
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
  const shelf = new Shelf({
    ...options,
    local: { loadedModels: () => [] },
    unload: async () => undefined,
    devices: () => [],
    reload: () => undefined,
  });
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

/** Bytes that this process has read by system calls, cached or not. */
function bytesRead(): number {
  return Number(/^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

unless(noProcfs, test)('however many clients ask about a model, its files are read once', async () => {
  const home = await makeHome();
  try {
    const { shelf, installed } = shelfIn(home);
    const file = join(home.dir, 'large.gguf');
    const vocabulary = Buffer.concat(Array.from({ length: 100_000 }, (_, at) => string(`token ${String(at)}`)));
    const tokens = arrayEntry('tokenizer.ggml.tokens', VALUE_TYPE.string, 100_000, vocabulary);
    const large = gguf({ entries: [LLAMA, textEntry('tokenizer.ggml.model', 'gpt2'), tokens] });
    await writeFile(file, large);
    const model = await installed.add(file, { name: 'large', projector: projectorPath('clip') });
    // It differs from what was added: now each list of models is made from the file.
    await utimes(file, 1, 1);
    const header = vocabulary.length;
    for (const [what, ask] of [
      ['describe', () => shelf.describe(model)],
      ['defaults', () => shelf.defaultsOf(model)],
      ['list', () => installed.list()],
      ['find', () => installed.find('large')],
    ] as const) {
      const before = bytesRead();
      await Promise.all(Array.from({ length: 100 }, async () => await ask()));
      for (let call = 0; call < 100; call += 1) await ask();
      const reads = (bytesRead() - before) / header;
      // The header is read in growing pieces, and the vocabulary once more; the rest is the registry.
      assert.ok(reads < 10, `${what}: ${reads.toFixed(1)} times`);
    }
    await writeFile(file, large.subarray(0, header));
    const before = bytesRead();
    for (let call = 0; call < 100; call += 1) await installed.list();
    assert.ok((bytesRead() - before) / header < 10, 'a damaged file');
  } finally {
    await home.remove();
  }
});

test.run();
