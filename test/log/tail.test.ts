import { appendFileSync, existsSync, mkdtempSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { endOfLines, follow, lastLines, openLog } from '../../src/log/tail.ts';
import { waitFor } from '../support/wait.ts';

interface Context {
  dir: string;
  path: string;
}
const test = suite<Context>('tail of a log');
test.before.each((context) => {
  context.dir = mkdtempSync(join(tmpdir(), 'svc-l-'));
  context.path = join(context.dir, 'log');
});
test.after.each(async ({ dir }) => {
  for (const file of handles.splice(0)) await file.close();
  rmSync(dir, { recursive: true });
});

const all = (): boolean => true;
const handles: FileHandle[] = [];
async function opened(path: string): Promise<FileHandle> {
  const file = await openLog(path);
  assert.ok(file);
  handles.push(file);
  return file;
}

/** Passes each line to `onLine`, until that throws. */
async function followed(path: string, onLine: (line: string) => void): Promise<void> {
  for await (const line of follow(path, undefined)) onLine(line);
}

test('the last n lines are returned for any n', async ({ path }) => {
  writeFileSync(path, 'a\nb\n\nc\n');
  const file = await opened(path);
  const end = await endOfLines(file);
  assert.equal(await lastLines(file, end, 0, all), []);
  assert.equal(await lastLines(file, end, 2, all), ['b', 'c']);
  assert.equal(await lastLines(file, end, 3, all), ['a', 'b', 'c']);
  assert.equal(await lastLines(file, end, 100, all), ['a', 'b', 'c']);
  assert.equal(await lastLines(file, end, 1, (line) => line < 'c'), ['b']);
});

test('lines and characters that cross block boundaries are read whole', async ({ path }) => {
  const lines = Array.from({ length: 500 }, (_, n) => `${String(n)} ${'é'.repeat((n * 37) % 4000)}`);
  writeFileSync(path, `${lines.join('\n')}\n`);
  const file = await opened(path);
  assert.equal(await lastLines(file, await endOfLines(file), 120, all), lines.slice(-120));
  assert.equal(await lastLines(file, await endOfLines(file), 1000, all), lines);
});

test('an unterminated line is not returned yet; an empty log has no lines', async ({ path }) => {
  assert.is(await openLog(path), undefined);
  writeFileSync(path, '');
  assert.equal(await lastLines(await opened(path), 0, 5, all), []);
  writeFileSync(path, 'a\nhal');
  assert.is(await endOfLines(await opened(path)), 2);
  writeFileSync(path, 'hal');
  assert.is(await endOfLines(await opened(path)), 0);
});

test('following: no line is lost if the log is rotated more than once between two polls', async ({ path }) => {
  const seen: string[] = [];
  const stop = new Error('enough');
  writeFileSync(path, 'a\n');
  const following = followed(path, (line) => {
    seen.push(line);
    if (line === 'end') throw stop;
  });
  await waitFor('a', () => seen.includes('a'));
  for (const line of ['b', 'c', 'd']) {
    for (let n = 3; n >= 0; n--) {
      const from = n === 0 ? path : `${path}.${String(n)}`;
      if (existsSync(from)) renameSync(from, `${path}.${String(n + 1)}`);
    }
    writeFileSync(path, `${line}\n`);
  }
  appendFileSync(path, 'end\n');
  await following.catch((error: unknown) => {
    assert.is(error, stop);
  });
  assert.equal(seen, ['a', 'b', 'c', 'd', 'end']);
});

test('following: whole lines, across rotation, truncation and a file that does not exist yet', async ({ path }) => {
  const seen: string[] = [];
  const sees = (line: string): Promise<unknown> => waitFor(line, () => seen.at(-1) === line);
  const stop = new Error('enough');
  const following = followed(path, (line) => {
    seen.push(line);
    if (line === 'end') throw stop;
  });
  writeFileSync(path, 'a\nhal');
  await sees('a');
  appendFileSync(path, 'f\n');
  await sees('half');
  appendFileSync(path, 'before\n');
  renameSync(path, `${path}.1`);
  writeFileSync(path, 'after\n');
  await sees('after');
  truncateSync(path, 0);
  await waitFor('the truncation to be seen', async () => {
    appendFileSync(path, 'x\n');
    return seen.at(-1) === 'x';
  });
  appendFileSync(path, 'end\n');
  await following.catch((error: unknown) => {
    assert.is(error, stop);
  });
  assert.equal(seen.slice(0, 4), ['a', 'half', 'before', 'after']);
});

test.run();
