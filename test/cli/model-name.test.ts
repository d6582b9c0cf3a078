/** Which typed words are a path to a model's file, and which its name. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { modelName } from '../../src/cli/machine/model-name.ts';

test('vendor/name is a path only if a file is there, not a directory', () => {
  const before = process.cwd();
  const folder = mkdtempSync(join(tmpdir(), 'svc-name-'));
  try {
    process.chdir(folder);
    mkdirSync(join('openai', 'gpt-5'), { recursive: true });
    writeFileSync(join('openai', 'weights'), '');
    assert.is(modelName('openai/gpt-5'), 'openai/gpt-5');
    assert.is(modelName('openai/other'), 'openai/other');
    assert.is(modelName(`openai/${'x'.repeat(300)}`), `openai/${'x'.repeat(300)}`);
    assert.is(modelName('openai/weights'), `file:${join(process.cwd(), 'openai', 'weights')}`);
    // These are paths, whatever is there.
    for (const typed of ['./openai', 'x.gguf', 'openai/x.GGUF'])
      assert.is(modelName(typed), `file:${join(process.cwd(), typed)}`);
  } finally {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  }
});

test.run();
