/** Prefix files on disk: their folder per model, and their deletion. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  adoptPrefixes,
  clearPrefixes,
  defaultPrefixBytes,
  prefixFolder,
  prefixKey,
  prefixName,
  prefixShareOf,
  removePrefixes,
} from '../../src/models/store/prefixes.ts';

const GIB = 2 ** 30;

const test = suite<{ cache: string }>('prefixes');

test.before.each(async (context) => {
  context.cache = await mkdtemp(join(tmpdir(), 'svc-prefixes-'));
});
test.after.each(async ({ cache }) => rm(cache, { recursive: true }));

test('the folder name of a model is derived from its path and cannot escape the cache', () => {
  for (const path of ['/models/a.gguf', '/models/../b.gguf', '']) assert.match(prefixName(path), /^[0-9a-f]{32}$/);
  assert.is.not(prefixName('/models/a.gguf'), prefixName('/models/b.gguf'));
});

test('deleting the prefixes of one model keeps those of others', async ({ cache }) => {
  const folder = prefixFolder(cache);
  await removePrefixes(folder, '/a.gguf'); // the folder does not exist yet
  for (const parent of [folder, join(cache, 'shaders')]) {
    for (const model of ['/a.gguf', '/b.gguf']) {
      mkdirSync(join(parent, prefixName(model)), { recursive: true });
      writeFileSync(join(parent, prefixName(model), '1.prefix'), '');
    }
  }
  await removePrefixes(folder, '/a.gguf');
  assert.equal(readdirSync(folder), [prefixName('/b.gguf')]);
  assert.equal(readdirSync(join(cache, 'shaders')), [prefixName('/b.gguf')]);
  await clearPrefixes(folder);
  assert.equal(readdirSync(cache), ['shaders']);
  await clearPrefixes(folder);
});

test('files of the layout without directories are moved into those of their models', async ({ cache }) => {
  const folder = prefixFolder(cache);
  await adoptPrefixes(folder); // the folder does not exist yet
  const [a, b, empty] = [prefixName('/a.gguf'), prefixName('/b.gguf'), prefixName('/empty.gguf')];
  for (const name of [b, empty, 'odd']) mkdirSync(join(folder, name), { recursive: true });
  for (const name of [
    `${a}-12.prefix`,
    `${a}-34.prefix`,
    `${b}-56.prefix`,
    join(b, `${b}-78.prefix`),
    'junk',
    'odd/1',
  ]) {
    writeFileSync(join(folder, name), name);
  }
  mkdirSync(join(cache, 'shaders', 'mesa_shader_cache'), { recursive: true });
  mkdirSync(join(cache, 'shaders', a));
  await adoptPrefixes(folder);
  assert.equal(readdirSync(folder).sort(), [a, b].sort());
  assert.equal(readdirSync(join(folder, a)).sort(), [`${a}-12.prefix`, `${a}-34.prefix`]);
  assert.is(readFileSync(join(folder, a, `${a}-12.prefix`), 'utf8'), `${a}-12.prefix`);
  assert.equal(readdirSync(join(folder, b)).sort(), [`${b}-56.prefix`, `${b}-78.prefix`]);
  assert.is(statSync(join(folder, a)).mode & 0o777, 0o700);
  assert.equal(readdirSync(join(cache, 'shaders')), [a]);
});

test('the secret is created once, and replaced if other users could read it or it is damaged', ({ cache }) => {
  const key = prefixKey(cache);
  assert.match(key, /^[0-9a-f]{32}$/);
  const file = join(cache, 'prefix.key');
  assert.is(statSync(file).mode & 0o777, 0o600);
  assert.is(prefixKey(cache), key);
  chmodSync(file, 0o644);
  const second = prefixKey(cache);
  assert.is.not(second, key);
  assert.is(statSync(file).mode & 0o777, 0o600);
  writeFileSync(file, 'garbage');
  assert.is.not(prefixKey(cache), second);
  assert.match(readFileSync(file, 'latin1'), /^[0-9a-f]{32}$/);
  // It cannot be stored, so a temporary secret is returned.
  assert.match(prefixKey(join(cache, 'missing')), /^[0-9a-f]{32}$/);
});

test('the default size is a tenth of the free disk, from 1 to 32 GiB, but at most half', () => {
  assert.is(prefixShareOf(100 * GIB), 10 * GIB);
  assert.is(prefixShareOf(3000 * GIB), 32 * GIB);
  assert.is(prefixShareOf(3 * GIB), GIB);
  assert.is(prefixShareOf(GIB), GIB / 2);
  assert.is(prefixShareOf(0), 0);
});

test('the default size counts existing files as free, and needs no folder', async ({ cache }) => {
  const folder = prefixFolder(cache);
  const { bavail, bsize } = statfsSync(cache);
  const isNear = (bytes: number, expected: number): boolean => Math.abs(bytes - expected) < 0.05 * expected + GIB / 10;
  assert.ok(isNear(await defaultPrefixBytes(folder), prefixShareOf(bavail * bsize)));
  const file = join(folder, prefixName('/a.gguf'), 'a.prefix');
  mkdirSync(dirname(file), { recursive: true });
  // A sparse file: it takes no space.
  writeFileSync(file, '');
  truncateSync(file, 1000 * GIB);
  assert.ok(isNear(await defaultPrefixBytes(folder), prefixShareOf(bavail * bsize + 1000 * GIB)));
  // What is no folder has no free space.
  assert.is(await defaultPrefixBytes(join(file, 'x')), GIB);
});

test.run();
