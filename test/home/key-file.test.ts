import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey, digestOfKey, readKeyFile, removeKey } from '../../src/home/key-file.ts';
import { rejection } from '../support/errors.ts';
import { makeHome, type Home } from '../support/home.ts';

interface Context {
  home: Home;
  path: string;
}
const test = suite<Context>('key-file');
test.before.each(async (context) => {
  context.home = await makeHome();
  context.path = join(context.home.dir, 'data', 'keys.json');
});
test.after.each(({ home }) => home.remove());

const onUnix = process.platform === 'win32' ? test.skip : test;

test('a key is returned once; the file has only its digest, with access for its owner only', async ({ path }) => {
  assert.equal(readKeyFile(path), []);
  const { entry, key } = await addKey(path, 'laptop', 'inference');
  assert.match(key, /^svc_[\w-]{43}$/);
  assert.is(entry.sha256, digestOfKey(key).toString('hex'));
  assert.equal(readKeyFile(path), [entry]);
  assert.not.ok(readFileSync(path, 'utf8').includes(key.slice(4)), 'the key itself is nowhere');
  assert.equal(readdirSync(join(path, '..')), ['keys.json'], 'no lock and no half-written file is left');
  if (process.platform !== 'win32') {
    assert.is(statSync(path).mode & 0o777, 0o600);
    assert.is(statSync(join(path, '..')).mode & 0o777, 0o700);
  }
});

test('all keys differ, and none is lost when many are added concurrently', async ({ path }) => {
  const names = Array.from({ length: 12 }, (_, i) => `key-${String(i)}`);
  const added = await Promise.all(names.map((name) => addKey(path, name, 'admin')));
  assert.is(new Set(added.map(({ key }) => key)).size, names.length);
  assert.equal(
    readKeyFile(path)
      .map(({ name }) => name)
      .sort(),
    [...names].sort(),
  );
});

test('a write replaces the file atomically: a concurrent reader sees the old one complete', async ({ path }) => {
  await addKey(path, 'one', 'inference');
  const before = statSync(path).ino;
  await addKey(path, 'two', 'inference');
  assert.is.not(statSync(path).ino, before);
});

test('a removed key is no longer accepted', async ({ path }) => {
  await addKey(path, 'one', 'inference');
  await addKey(path, 'two', 'admin');
  assert.is(await removeKey(path, 'one'), 1);
  assert.equal(
    readKeyFile(path).map(({ name, scope }) => [name, scope]),
    [['two', 'admin']],
  );
  await rejection(() => removeKey(path, 'one'), 'NOT_FOUND', /no key "one"/);
  assert.is(await removeKey(path, 'two'), 0);
});

test('names have a limited length, plain characters, and are unique', async ({ path }) => {
  for (const name of ['', '-x', 'a b', 'a/b', 'é', '../x', 'x'.repeat(65), 'a\nb', '__proto__x y']) {
    await rejection(() => addKey(path, name, 'inference'), 'INVALID_REQUEST', /cannot be the name/);
  }
  assert.not.ok(existsSync(path));
  await addKey(path, 'x'.repeat(64), 'inference');
  await addKey(path, 'Lap.top_1-2', 'inference');
  await rejection(() => addKey(path, 'Lap.top_1-2', 'inference'), 'INVALID_REQUEST', /name exists/);
});

test('an invalid file is an error and is not overwritten', async ({ path }) => {
  mkdirSync(join(path, '..'), { recursive: true });
  const digest = 'a'.repeat(64);
  const key = { name: 'a', scope: 'admin', sha256: digest, created_at: 'x' };
  const damaged = [
    '',
    '{',
    '[]',
    '{"version":2,"keys":[]}',
    JSON.stringify({ version: 1, keys: [{ ...key, scope: 'root' }] }),
    JSON.stringify({ version: 1, keys: [{ ...key, sha256: 'short' }] }),
    JSON.stringify({ version: 1, keys: [{ ...key, name: 'a b' }] }),
    JSON.stringify({ version: 1, keys: Array.from({ length: 1001 }, () => key) }),
    ' '.repeat(1024 * 1024 + 1),
  ];
  for (const text of damaged) {
    writeFileSync(path, text, { mode: 0o600 });
    await rejection(() => readKeyFile(path), 'CONFIG_INVALID');
    await rejection(() => addKey(path, 'b', 'inference'), 'CONFIG_INVALID');
    assert.is(readFileSync(path, 'utf8'), text);
  }
});

test('the number of keys is limited', async ({ path }) => {
  mkdirSync(join(path, '..'), { recursive: true });
  const keys = Array.from({ length: 1000 }, (_, i) => ({
    name: `k${String(i)}`,
    scope: 'inference',
    sha256: 'a'.repeat(64),
    created_at: 'x',
  }));
  writeFileSync(path, JSON.stringify({ version: 1, keys }), { mode: 0o600 });
  await rejection(() => addKey(path, 'more', 'inference'), 'INVALID_REQUEST', /1000 keys already/);
});

onUnix('a file that other users may write admits no client', async ({ path }) => {
  await addKey(path, 'one', 'inference');
  for (const mode of [0o620, 0o602, 0o666]) {
    chmodSync(path, mode);
    const { hint } = await rejection(() => readKeyFile(path), 'CONFIG_INVALID', /can be written by other users/);
    assert.is(hint, `chmod 600 ${path}`);
  }
  chmodSync(path, 0o644);
  assert.is(readKeyFile(path).length, 1, 'digests may be read');
});

test.run();
