import { appendFileSync, existsSync, mkdtempSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { endOfLines, follow, lastLines, openLog } from '../../src/cli/terminal/log-tail.ts';
import { waitFor } from '../support/wait.ts';

interface Context {
  dir: string;
  path: string;
}
const test = suite<Context>('log-tail');
test.before.each((context) => {
  context.dir = mkdtempSync(join(tmpdir(), 'svc-l-'));
  context.path = join(context.dir, 'log');
});
test.after.each(({ dir }) => {
  rmSync(dir, { recursive: true });
});

const all = (): boolean => true;
const opened = (path: string): number => openLog(path) as number;

test('the last n lines are returned for any n', ({ path }) => {
  writeFileSync(path, 'a\nb\n\nc\n');
  const file = opened(path);
  const end = endOfLines(file);
  assert.equal(lastLines(file, end, 0, all), []);
  assert.equal(lastLines(file, end, 2, all), ['b', 'c']);
  assert.equal(lastLines(file, end, 3, all), ['a', 'b', 'c']);
  assert.equal(lastLines(file, end, 100, all), ['a', 'b', 'c']);
  assert.equal(
    lastLines(file, end, 1, (line) => line < 'c'),
    ['b'],
  );
});

test('lines and characters that cross block boundaries are read whole', ({ path }) => {
  const lines = Array.from({ length: 500 }, (_, n) => `${String(n)} ${'é'.repeat((n * 37) % 4000)}`);
  writeFileSync(path, `${lines.join('\n')}\n`);
  const file = opened(path);
  assert.equal(lastLines(file, endOfLines(file), 120, all), lines.slice(-120));
  assert.equal(lastLines(file, endOfLines(file), 1000, all), lines);
});

test('an unterminated line is not returned yet; an empty log has no lines', ({ path }) => {
  assert.is(openLog(path), undefined);
  writeFileSync(path, '');
  assert.equal(lastLines(opened(path), endOfLines(opened(path)), 5, all), []);
  writeFileSync(path, 'a\nhal');
  assert.is(endOfLines(opened(path)), 2);
  writeFileSync(path, 'hal');
  assert.is(endOfLines(opened(path)), 0);
});

test('following: no line is lost if the log is rotated more than once between two polls', async ({ path }) => {
  const seen: string[] = [];
  const stop = new Error('enough');
  writeFileSync(path, 'a\n');
  const following = follow(path, undefined, (line) => {
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
  const following = follow(path, undefined, (line) => {
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
