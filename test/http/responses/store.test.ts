/** The store of responses: files, owners, ages, sizes. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { StoredResponse } from '../../../src/protocol/openai/responses/response.ts';
import { ResponseStore, type ResponseStoreOptions } from '../../../src/responses/response-store.ts';

const test = suite<{ dir: string; now: number; open(options?: Partial<ResponseStoreOptions>): ResponseStore }>('store');
test.before.each((context) => {
  context.dir = join(mkdtempSync(join(tmpdir(), 'svc-store-')), 'responses');
  context.now = Date.now();
  context.open = (options) =>
    new ResponseStore({
      dir: context.dir,
      enabled: true,
      keepMs: 1000,
      mostBytes: 1_000_000,
      now: () => context.now,
      onFailure: (error) => {
        throw error;
      },
      ...options,
    });
});
test.after.each(({ dir }) => rmSync(join(dir, '..'), { recursive: true, force: true }));

const idOf = (index: number): string => `resp_${String(index).padStart(32, '0')}`;
const record = (index: number, storedAt: number, text = 'hello'): StoredResponse => ({
  owner: 'key:mine',
  stored_at: storedAt,
  response: { id: idOf(index), object: 'response', status: 'completed', output: [] },
  input: [{ type: 'message', role: 'user', content: text }],
});

test('a response is found by its owner alone, also after a restart', async ({ now, dir, open }) => {
  const store = open();
  assert.is(await store.put(record(1, now)), true);
  assert.equal(await store.find(idOf(1), 'key:mine'), record(1, now));
  for (const other of ['key:other', 'address:127.0.0.1', '']) assert.is(await store.find(idOf(1), other), null);
  store.close();
  const again = open();
  assert.equal(await again.find(idOf(1), 'key:mine'), record(1, now));
  if (process.platform !== 'win32') {
    assert.is(statSync(dir).mode & 0o777, 0o700);
    assert.is(statSync(join(dir, `${idOf(1)}.json`)).mode & 0o777, 0o600);
  }
  again.close();
});

test('only its owner can delete a response', async ({ now, dir, open }) => {
  const store = open();
  await store.put(record(1, now));
  assert.is(await store.remove(idOf(1), 'key:other'), false);
  assert.is(await store.remove(idOf(1), 'key:mine'), true);
  assert.is(await store.remove(idOf(1), 'key:mine'), false);
  assert.equal(readdirSync(dir), []);
  store.close();
});

test('what is too old is not found, and deleted', async (context) => {
  const store = context.open();
  await store.put(record(1, context.now));
  context.now += 1001;
  assert.is(await store.find(idOf(1), 'key:mine'), null);
  await store.put(record(2, context.now));
  assert.equal(readdirSync(context.dir), [`${idOf(2)}.json`]);
  store.close();
});

test('the oldest go if all together are too large, and one that is too large is not stored', async ({ now, open }) => {
  const size = Buffer.byteLength(JSON.stringify(record(1, now)));
  const store = open({ mostBytes: 2 * size });
  for (const index of [1, 2, 3]) assert.is(await store.put(record(index, now)), true);
  const found = await Promise.all([1, 2, 3].map((index) => store.find(idOf(index), 'key:mine')));
  assert.equal(
    found.map((each) => each !== null),
    [false, true, true],
  );
  assert.is(await store.put(record(4, now, 'x'.repeat(2 * size))), false);
  assert.is.not(await store.find(idOf(3), 'key:mine'), null);
  store.close();
});

test('the responses of one owner do not displace those of another', async ({ now, open }) => {
  const put = async (store: ResponseStore, index: number, owner: string): Promise<void> =>
    assert.is(await store.put({ ...record(index, now + index, 'x'.repeat(30_000)), owner }), true);
  const options = { mostBytes: 100_000 };
  const store = open(options);
  await put(store, 1, 'key:"a\\');
  await put(store, 2, 'key:b');
  await put(store, 3, 'key:b');
  await put(store, 4, 'key:b');
  assert.ok(await store.find(idOf(1), 'key:"a\\'));
  assert.is(await store.find(idOf(2), 'key:b'), null);
  store.close();
  // The next daemon knows the owners.
  const again = open(options);
  await put(again, 5, 'key:b');
  await put(again, 6, 'key:c');
  assert.ok(await again.find(idOf(1), 'key:"a\\'));
  assert.ok(await again.find(idOf(6), 'key:c'));
  assert.is(await again.find(idOf(4), 'key:b'), null);
  again.close();
});

test('ids that svc did not make touch no file', async ({ now, open }) => {
  const store = open();
  await store.put(record(1, now));
  for (const id of ['', '../x', `${idOf(1)}/../${idOf(1)}`, `${idOf(1)}.json`, 'resp_1', idOf(2)])
    assert.is(await store.find(id, 'key:mine'), null);
  store.close();
});

test('a damaged file is as good as absent, and what a write left behind is deleted', async ({ now, dir, open }) => {
  const store = open();
  await store.put(record(1, now));
  await store.put(record(2, now));
  store.close();
  const file = join(dir, `${idOf(1)}.json`);
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, -20));
  writeFileSync(join(dir, `${idOf(3)}.json.123456`), 'half');
  writeFileSync(join(dir, 'other.txt'), 'not ours');
  const again = open();
  assert.is(await again.find(idOf(1), 'key:mine'), null);
  assert.is.not(await again.find(idOf(2), 'key:mine'), null);
  assert.equal(readdirSync(dir).sort(), [`${idOf(1)}.json`, `${idOf(2)}.json`, 'other.txt'].sort());
  again.close();
});

test('a store that is off stores nothing and deletes what is there', async ({ now, dir, open }) => {
  const on = open();
  await on.put(record(1, now));
  on.close();
  const off = open({ enabled: false });
  await off.open();
  assert.throws(() => readdirSync(dir), /ENOENT/);
  assert.is(await off.put(record(1, now)), false);
  assert.is(await off.find(idOf(1), 'key:mine'), null);
  off.close();
});

test.run();
