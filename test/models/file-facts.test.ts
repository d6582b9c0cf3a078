/** Facts of files: each state is read once, and few at a time. */
import { appendFile, mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FileFacts } from '../../src/models/gguf/file-facts.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { waitFor } from '../support/wait.ts';

let folder = '';
test.before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-facts-'));
});
test.after(() => rm(folder, { recursive: true }));

async function file(name: string, content = 'x'): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

/** Resolves when no call of the file system runs: all calls for facts so far know the state of their files. */
async function statesKnown(): Promise<void> {
  const known = (): boolean => !process.getActiveResourcesInfo().includes('FSReqPromise');
  await waitFor('the states of the files', known, { intervalMs: 1 });
}

function counted(answer: (read: number) => unknown = (read) => read, keeps = true) {
  const read: string[] = [];
  let [running, most] = [0, 0];
  const facts = new FileFacts({
    keeps: () => keeps,
    read: async (paths) => {
      read.push(paths.join(' '));
      most = Math.max(most, (running += 1));
      await statesKnown();
      running -= 1;
      const result = answer(read.length);
      if (result instanceof Error) throw result;
      return result;
    },
  });
  return { facts, read, most: () => most };
}

test('calls at the same time and later ones cost one read', async () => {
  const { facts, read } = counted();
  const path = await file('one');
  assert.equal(await Promise.all(Array.from({ length: 200 }, () => facts.of(path))), Array<number>(200).fill(1));
  assert.is(await facts.of(path), 1);
  assert.is(read.length, 1);
});

test('a file that has changed is read again', async () => {
  const { facts, read } = counted();
  const path = await file('changing');
  await facts.of(path);
  await appendFile(path, 'y');
  assert.is(await facts.of(path), 2);
  await utimes(path, 1, 1);
  assert.is(await facts.of(path), 3);
  // Another file of the same size and time.
  const other = await file('other', 'xy');
  await utimes(other, 1, 1);
  await rename(other, path);
  assert.is(await facts.of(path), 4);
  assert.is(await facts.of(path), 4);
  const second = await file('second');
  assert.is(await facts.of(path, second), 5);
  await appendFile(second, 'y');
  assert.is(await facts.of(path, second), 6);
  assert.is(read.length, 6);
});

test('two files are read at a time', async () => {
  const { facts, read, most } = counted();
  const paths = await Promise.all(Array.from({ length: 10 }, (_, at) => file(`of ten ${String(at)}`)));
  await Promise.all([...paths, ...paths].map((path) => facts.of(path)));
  assert.is(read.length, 10);
  assert.is(most(), 2);
});

test('what a file has of errors is remembered; what the system refused is tried again', async () => {
  const path = await file('bad');
  const bad = new SvcError('MODEL_INVALID', 'is not a model');
  const refused = new SvcError('MODEL_INVALID', 'cannot be read', {
    cause: Object.assign(new Error(), { code: 'EIO' }),
  });
  for (const [error, reads] of [
    [bad, 1],
    [refused, 3],
  ] as const) {
    const { facts, read } = counted(() => error);
    for (let call = 0; call < 3; call += 1) {
      assert.is(await facts.of(path).catch((thrown: unknown) => thrown), error);
    }
    assert.is(read.length, reads);
  }
  const { facts, read } = counted();
  await facts.of(join(folder, 'missing'));
  await facts.of(join(folder, 'missing'));
  assert.is(read.length, 2);
});

test('of many files the last are remembered, and facts that are too large are not', async () => {
  const { facts, read } = counted();
  const paths = await Promise.all(Array.from({ length: 100 }, (_, at) => file(`of many ${String(at)}`)));
  for (const path of paths) await facts.of(path);
  await facts.of(paths[99] ?? '');
  assert.is(read.length, 100);
  await facts.of(paths[0] ?? '');
  assert.is(read.length, 101);
  const large = counted(undefined, false);
  await Promise.all(paths.slice(0, 1).flatMap((path) => [large.facts.of(path), large.facts.of(path)]));
  await facts.of(paths[0] ?? '');
  assert.is(large.read.length, 1);
  await large.facts.of(paths[0] ?? '');
  assert.is(large.read.length, 2);
});

test.run();
