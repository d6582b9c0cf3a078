/** The size limit of the prefix files of all models together. */
import { existsSync, lstatSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PrefixRoom } from '../../src/models/store/prefix-room.ts';
import { prefixName, removePrefixes } from '../../src/models/store/prefixes.ts';
import { waitFor } from '../support/wait.ts';

const KIB = 1024;

interface Context {
  folder: string;
  room: PrefixRoom;
  failures: unknown[];
}

const test = suite<Context>('prefix room');

test.before.each(async (context) => {
  context.folder = join(await mkdtemp(join(tmpdir(), 'svc-room-')), 'prefixes');
  context.failures = [];
  const { folder, failures } = context;
  context.room = new PrefixRoom({ folder, bytes: 100 * KIB, onFailure: (error) => failures.push(error) });
});
test.after.each(async ({ folder, room, failures }) => {
  room.close();
  assert.equal(failures, []);
  await rm(join(folder, '..'), { recursive: true });
});

const total = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => lstatSync(join(folder, name), { throwIfNoEntry: false }))
    .reduce((sum, entry) => sum + (entry?.isFile() === true ? entry.size : 0), 0);

function save(directory: string, name: string, kib: number, secondsAgo: number): void {
  const path = join(directory, name);
  writeFileSync(path, Buffer.alloc(kib * KIB));
  utimesSync(path, Date.now() / 1000 - secondsAgo, Date.now() / 1000 - secondsAgo);
}

test('each model has a directory of its own, for its owner only', ({ room, folder }) => {
  const [one, other] = [room.open('/one.gguf'), room.open('/other.gguf')];
  assert.is(one, join(folder, prefixName('/one.gguf')));
  assert.is.not(one, other);
  for (const directory of [folder, one, other]) assert.is(statSync(directory).mode & 0o777, 0o700);
});

test('a new file evicts the least recently used ones of any model', async ({ room }) => {
  const [one, other] = [room.open('/one.gguf'), room.open('/other.gguf')];
  save(one, 'old', 40, 30);
  save(other, 'older', 40, 60);
  await room.check();
  assert.ok(existsSync(join(other, 'older')), 'they fit');
  save(one, 'new', 40, 0);
  await waitFor('the oldest to be evicted', () => !existsSync(join(other, 'older')));
  await room.check();
  assert.equal(readdirSync(one).sort(), ['new', 'old']);
  room.setLimit(50 * KIB);
  await waitFor('the limit to be applied', () => readdirSync(one).length === 1);
  assert.equal(readdirSync(one), ['new']);
});

test('several engines that write at the same time stay within the limit together', async ({ room, folder }) => {
  const directories = ['/a', '/b', '/c', '/d'].map((path) => room.open(path));
  await Promise.all(
    directories.map(async (directory) => {
      for (let i = 0; i < 30; ++i) await writeFile(join(directory, String(i)), Buffer.alloc(10 * KIB));
    }),
  );
  await waitFor('the limit to hold', () => total(folder) <= 100 * KIB);
  await room.check();
  assert.ok(total(folder) > 80 * KIB, 'no more is deleted than needed');
});

test('what an engine should not have written is deleted', async ({ room }) => {
  const directory = room.open('/one.gguf');
  mkdirSync(join(directory, 'hidden', 'deeper'), { recursive: true });
  save(join(directory, 'hidden', 'deeper'), 'large', 400, 0);
  save(directory, 'huge', 400, 0);
  save(directory, 'kept', 10, 0);
  await room.check();
  await waitFor('the rest to be gone', () => readdirSync(directory).join() === 'kept');
});

test('a directory that was deleted with its model is watched again', async ({ room, folder }) => {
  room.open('/one.gguf');
  await removePrefixes(folder, '/one.gguf');
  const directory = room.open('/one.gguf');
  await room.check();
  save(directory, 'huge', 400, 0);
  await waitFor('it to be deleted', () => readdirSync(directory).length === 0);
});

test.run();
