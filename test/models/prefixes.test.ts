/** The prefixes that engines keep on the disk: whose they are, and that they go. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { clearPrefixes, prefixFolder, prefixName, removePrefixes } from '../../src/models/prefixes.ts';

const test = suite<{ cache: string }>('prefixes');

test.before.each(async (context) => {
  context.cache = await mkdtemp(join(tmpdir(), 'svc-prefixes-'));
});
test.after.each(async ({ cache }) => rm(cache, { recursive: true }));

test('a model has a name there that is of its path and can lead nowhere', () => {
  for (const path of ['/models/a.gguf', '/models/../b.gguf', '']) assert.match(prefixName(path), /^[0-9a-f]{32}$/);
  assert.is.not(prefixName('/models/a.gguf'), prefixName('/models/b.gguf'));
});

test('those of one model go, and those of the others stay', async ({ cache }) => {
  const folder = prefixFolder(cache);
  await removePrefixes(folder, '/a.gguf'); // there is none yet
  mkdirSync(folder);
  const others = `${prefixName('/b.gguf')}-1.prefix`;
  for (const name of [`${prefixName('/a.gguf')}-1.prefix`, `${prefixName('/a.gguf')}-2.prefix`, others]) {
    writeFileSync(join(folder, name), '');
  }
  await removePrefixes(folder, '/a.gguf');
  assert.equal(readdirSync(folder), [others]);
  await clearPrefixes(folder);
  assert.equal(readdirSync(cache), []);
  await clearPrefixes(folder);
});

test.run();
