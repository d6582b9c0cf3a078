import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFile } from '../../src/log/log-file.ts';
import { standStill } from '../support/stand-still.ts';
import { waitFor } from '../support/wait.ts';

const scratch = mkdtempSync(join(tmpdir(), 'svc-log-file-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

function fresh(name: string): string {
  const directory = join(scratch, name);
  mkdirSync(directory);
  return join(directory, 'daemon.log');
}

function line(number: number): string {
  return `${JSON.stringify({ number, padding: 'x'.repeat(80) })}\n`;
}

function numbers(path: string): number[] {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((text) => (JSON.parse(text) as { number: number }).number);
}

/** Resolves once the line is in the file or in the one just rotated. */
async function written(path: string, number: number): Promise<void> {
  const isIn = (file: string): boolean =>
    existsSync(file) && readFileSync(file, 'utf8').includes(`{"number":${String(number)},`);
  await waitFor(`line ${String(number)}`, () => isIn(path) || isIn(`${path}.1`), { intervalMs: 1 });
}

test('lines are written whole and in order, to a file with access for its owner only', async () => {
  const path = fresh('order');
  const file = new LogFile(path);
  for (let i = 0; i < 1000; i++) file.write(line(i));
  await file.close();
  assert.equal(
    numbers(path),
    Array.from({ length: 1000 }, (_, i) => i),
  );
  assert.is(statSync(path).mode & 0o777, 0o600);
});

test('an existing file is appended to', async () => {
  const path = fresh('append');
  writeFileSync(path, line(0));
  const file = new LogFile(path);
  file.write(line(1));
  await file.close();
  assert.equal(numbers(path), [0, 1]);
});

test('a moved or removed file, and a removed directory, are created again', async () => {
  const path = fresh('away');
  const file = new LogFile(path);
  const arrives = (number: number): Promise<unknown> =>
    waitFor(`line ${String(number)}`, () => existsSync(path) && numbers(path).at(-1) === number);
  file.write(line(0));
  await arrives(0);
  renameSync(path, `${path}.mine`);
  file.write(line(1));
  await arrives(1);
  rmSync(path);
  file.write(line(2));
  await arrives(2);
  rmSync(join(path, '..'), { recursive: true });
  file.write(line(3));
  await arrives(3);
  assert.is(statSync(join(path, '..')).mode & 0o777, 0o700);
  file.write(line(4));
  await file.close();
  assert.equal(numbers(path), [3, 4]);
});

test('it rotates by size, keeps a fixed number of files, and loses no line of them', async () => {
  const path = fresh('rotate');
  const file = new LogFile(path, { maxBytes: 10_000, keep: 3 });
  for (let i = 0; i < 2000; i++) {
    file.write(line(i));
    // Several writes per file, each awaited.
    if (i % 20 === 0) await written(path, i);
  }
  await file.close();
  assert.equal(readdirSync(join(path, '..')).sort(), ['daemon.log', 'daemon.log.1', 'daemon.log.2', 'daemon.log.3']);
  const kept = [`${path}.3`, `${path}.2`, `${path}.1`, path].flatMap((name) =>
    statSync(name).size > 0 ? numbers(name) : [],
  );
  const first = kept[0] ?? 0;
  assert.equal(
    kept,
    Array.from({ length: 2000 - first }, (_, i) => first + i),
  );
  for (const name of [1, 2, 3]) assert.ok(statSync(`${path}.${String(name)}`).size < 10_000 + 65_536 + 200);
});

test('flushSync in the middle of writing neither loses nor repeats a line', async () => {
  const path = fresh('flush');
  const file = new LogFile(path);
  for (let i = 0; i < 100; i++) file.write(line(i));
  await written(path, 99);
  for (let i = 100; i < 200; i++) file.write(line(i));
  file.flushSync();
  assert.ok(new Set(numbers(path)).size === 200);
  await file.close();
});

test('lines logged after close are still written', async () => {
  const path = fresh('late');
  const file = new LogFile(path);
  file.write(line(0));
  await file.close();
  await file.close();
  file.write(line(1));
  assert.equal(numbers(path), [0, 1]);
});

test('while the file cannot be opened lines are buffered, and written once it can', async () => {
  const path = fresh('blocked');
  mkdirSync(path);
  const file = new LogFile(path);
  for (let i = 0; i < 10; i++) file.write(line(i));
  await waitFor('the refusal', () => file.trouble !== null);
  rmdirSync(path);
  await written(path, 9);
  assert.equal(
    numbers(path),
    Array.from({ length: 10 }, (_, i) => i),
  );
  assert.not.ok(file.trouble !== null);
  await file.close();
});

test('an event loop that was blocked is not taken for a disk that stalls', () => {
  const path = fresh('blocked-loop');
  const file = new LogFile(path);
  file.write(line(0));
  standStill(1500);
  file.flushSync();
  assert.equal(numbers(path), [0]);
});

test('a process that exits while writes fail reports the number of lost lines', () => {
  const path = fresh('end');
  const file = new LogFile(path);
  for (let i = 0; i < 100_000; i++) file.write(line(i));
  file.flushSync();
  assert.match(readFileSync(path, 'utf8'), /"level":"error".*\d+ log lines were dropped/);
});

test('a disk that accepts no line costs bounded memory, and the loss is reported', async () => {
  const path = fresh('full');
  mkdirSync(path);
  const file = new LogFile(path);
  const count = 100_000;
  for (let i = 0; i < count; i++) file.write(line(i));
  await waitFor('the refusal', () => file.trouble !== null);
  rmdirSync(path);
  await waitFor('the file', () => existsSync(path));
  await file.close();
  const text = readFileSync(path, 'utf8');
  assert.ok(text.length < 5 * 1024 * 1024, String(text.length));
  assert.match(text, /"level":"error".*\d+ log lines were dropped/);
});

test.run();
