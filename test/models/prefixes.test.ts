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
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
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
  mkdirSync(folder);
  // A sparse file: it takes no space.
  writeFileSync(join(folder, 'a.prefix'), '');
  truncateSync(join(folder, 'a.prefix'), 1000 * GIB);
  assert.ok(isNear(await defaultPrefixBytes(folder), prefixShareOf(bavail * bsize + 1000 * GIB)));
  // What is no folder has no free space.
  assert.is(await defaultPrefixBytes(join(folder, 'a.prefix', 'x')), GIB);
});

test.run();
