/** `engine.draft_model` with real engines: which models use the draft model, and what is logged for the others. */
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { modelPath } from '../support/native-engine.ts';
import { collect, context } from './conformance.ts';
import { ask, textOf } from './local-support.ts';
import { makeRealLocal, type RealLocal } from './real-local.ts';

const test = suite<{ folder: string }>('engine.draft_model');
test.before(async (each) => {
  each.folder = await mkdtemp(join(tmpdir(), 'svc-draft-'));
  await copyFile(modelPath('tiny-llama'), join(each.folder, 'small.gguf'));
});
test.after(async ({ folder }) => {
  await rm(folder, { recursive: true, force: true });
});

/** Returns the answer of a model with this draft model, and the log lines about drafts. */
async function say(folder: string, model: string, draft_model: string | null) {
  const models = { llama: modelPath('tiny-llama'), qwen: modelPath('tiny-qwen2'), small: join(folder, 'small.gguf') };
  const local: RealLocal = makeRealLocal({ draft_model, context_length: 2048 }, models);
  try {
    const request = { ...ask('Hello, hello, hello', model), max_tokens: 60, sampling: { temperature: 0 } };
    const text = textOf(await collect(local.backend.generate(request, context())));
    const told = local.log.filter(({ message }) => message.includes('draft_model'));
    return { text, told: told.map(({ level, message, fields }) => ({ level, message, reason: fields['reason'] })) };
  } finally {
    await local.dispose();
  }
}

test('a draft model with the same vocabulary does not change the text', async ({ folder }) => {
  const plain = await say(folder, 'llama', null);
  assert.ok(plain.text.length > 0);
  assert.equal(plain.told, []);
  assert.equal(await say(folder, 'llama', 'small'), plain);
});

test('the draft model itself, and a model with another vocabulary, run without drafts', async ({ folder }) => {
  const itself = await say(folder, 'small', 'small');
  assert.ok(itself.text.length > 0);
  assert.equal(
    itself.told.map(({ level, message }) => [level, message]),
    [['info', 'the model is engine.draft_model itself: loaded without a draft model']],
  );
  const other = await say(folder, 'qwen', 'small');
  assert.ok(other.text.length > 0);
  assert.equal(other.told, [
    {
      level: 'info',
      message: 'engine.draft_model is not used for this model',
      reason: 'the draft model has a different vocabulary',
    },
  ]);
});

test('a missing draft model is a warning', async ({ folder }) => {
  const { text, told } = await say(folder, 'llama', 'nobody');
  assert.ok(text.length > 0);
  assert.equal(told, [
    {
      level: 'warn',
      message: 'engine.draft_model cannot be used: loaded without a draft model',
      reason: 'there is no model nobody',
    },
  ]);
});

test.run();
