/** Kept conversations: modes, limits of age and size, order, and files that cannot be used. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Conversations } from '../../src/home/conversations.ts';
import { rejection } from '../support/errors.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-conversations-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

let count = 0;
const folder = (): string => join(scratch, String(count++), 'history');
const DAY = 86_400_000;
const open = (dir: string, mostBytes = 1_000_000, keepMs = 30 * DAY): Conversations =>
  new Conversations({ dir, keepMs, mostBytes });
const messages = (text: string) => [
  { role: 'user' as const, content: text },
  { role: 'assistant' as const, content: 'An answer.' },
];

test('a conversation is a file that only this user can read', async () => {
  const dir = folder();
  const store = open(dir);
  const id = store.newId();
  assert.is(await store.put({ id, model: 'm', messages: messages('One\ntwo') }), true);
  assert.equal(readdirSync(dir), [`${id}.json`]);
  if (process.platform !== 'win32') {
    assert.is(statSync(dir).mode & 0o777, 0o700);
    assert.is(statSync(join(dir, `${id}.json`)).mode & 0o777, 0o600);
  }
  const [first] = await store.list();
  assert.equal([first?.id, first?.title, first?.turns, first?.model], [id, 'One two', 1, 'm']);
  const before = await store.find(id);
  await store.put({ id, model: null, messages: [...messages('One'), ...messages('Two')] });
  const after = await store.last();
  assert.is(after?.created_at, before?.created_at);
  assert.is(after?.messages.length, 4);
  assert.is(await store.remove(id), true);
  assert.is(await store.remove(id), false);
  assert.is(await store.last(), null);
});

test('the oldest go when all are too large, and those that are too old', async () => {
  const dir = folder();
  const store = open(dir, 2000);
  const ids: string[] = [];
  for (let number = 0; number < 6; number += 1) {
    const id = store.newId();
    ids.push(id);
    await store.put({ id, model: 'm', messages: messages('x'.repeat(300)) });
    const at = new Date(Date.now() - (6 - number) * 60_000);
    utimesSync(join(dir, `${id}.json`), at, at);
  }
  const kept = await store.list();
  assert.equal(
    kept.map(({ id }) => id),
    ids.slice(-kept.length).reverse(),
  );
  assert.ok(kept.length >= 2 && kept.reduce((sum, { size_bytes }) => sum + size_bytes, 0) <= 2000);
  assert.is(await store.put({ id: store.newId(), model: 'm', messages: messages('x'.repeat(3000)) }), false);
  const [old = ''] = ids.slice(-1);
  const longAgo = new Date(Date.now() - 31 * DAY);
  utimesSync(join(dir, `${old}.json`), longAgo, longAgo);
  assert.is(await store.find(old), null);
  await store.put({ id: store.newId(), model: 'm', messages: messages('new') });
  assert.not.ok(readdirSync(dir).includes(`${old}.json`));
  const left = readdirSync(dir).length;
  assert.ok(left > 0);
  assert.is(await store.clear(), left);
});

test('other files and damaged ones are passed over; an unsafe folder is refused', async () => {
  const dir = folder();
  const store = open(dir);
  const id = store.newId();
  await store.put({ id, model: 'm', messages: messages('Hello') });
  writeFileSync(join(dir, '20260101-000000-abcd.json'), '{"id":');
  writeFileSync(join(dir, 'notes.txt'), 'mine');
  mkdirSync(join(dir, '20260101-000000-abce.json'));
  assert.equal(
    (await store.list()).map((each) => each.id),
    [id],
  );
  assert.is(await store.find('../../etc/passwd'), null);
  const linked = folder();
  mkdirSync(join(linked, '..'));
  symlinkSync(dir, linked);
  const error = await rejection(() => open(linked).put({ id, model: null, messages: messages('x') }), 'CONFIG_INVALID');
  assert.match(error.message, /not a directory/);
  assert.is(await store.clear(), 2);
  assert.equal(readdirSync(dir).sort(), ['20260101-000000-abce.json', 'notes.txt']);
});

test.run();
