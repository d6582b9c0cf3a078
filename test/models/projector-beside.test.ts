/** Which projector beside a model's file is the model's. */
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { projectorBeside } from '../../src/models/store/projector-beside.ts';
import { projectorPath } from '../support/media-files.ts';

const test = suite<{ dir: string }>('projector beside a model');
test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-beside-'));
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

async function found(dir: string, model: string, ...projectors: string[]): Promise<string | undefined> {
  for (const name of projectors) await copyFile(projectorPath('clip'), join(dir, name));
  const projector = await projectorBeside(join(dir, model));
  return projector === undefined ? undefined : basename(projector.path);
}

test('the one named after the model goes before one without a name', async ({ dir }) => {
  const own = 'mmproj-Qwen2.5-VL-3B-Instruct-f16.gguf';
  const others = ['mmproj-gemma-3-4b-it-f16.gguf', 'mmproj-F16.gguf', 'mmproj-model-q8_0.txt'];
  assert.is(await found(dir, 'Qwen2.5-VL-3B-Instruct-Q4_K_M.gguf', own, ...others), own);
  assert.is(await found(dir, 'other-model-Q8_0.gguf'), 'mmproj-F16.gguf');
});

test('names of models and projectors in other orders', async ({ dir }) => {
  assert.is(await found(dir, 'llava-v1.6.Q4_K.gguf', 'llava-v1.6-mmproj-f16.gguf'), 'llava-v1.6-mmproj-f16.gguf');
  assert.is(await found(dir, 'gemma-3-4b-it-Q4_0.gguf'), undefined);
});

test('two that are as likely, a file that is no projector, a folder that is not there', async ({ dir }) => {
  assert.is(await found(dir, 'a-Q8_0.gguf', 'mmproj-f16.gguf', 'mmproj-bf16.gguf'), undefined);
  await writeFile(join(dir, 'mmproj-b.gguf'), 'GGUF, or not');
  assert.is(await found(dir, 'b-Q8_0.gguf'), undefined);
  assert.is(await found(join(dir, 'nothing'), 'b-Q8_0.gguf'), undefined);
});

test.run();
