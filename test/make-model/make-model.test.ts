/** The test-model generator: ggml block layouts and reproducible output. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { encode, toHalf } from './quantize.ts';
import { randomRows } from './random.ts';
import { readGgufHeader } from '../../src/models/gguf/gguf.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const test = suite<{ dir: string; make(...args: string[]): Promise<string> }>('make-model');

test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-make-'));
  context.make = async (...args) => {
    const command = ['--import', 'tsx', 'test/make-model/make-model.ts', ...args];
    return (await promisify(execFile)(process.execPath, command, { cwd: ROOT })).stdout;
  };
});
test.after.each(async ({ dir }) => rm(dir, { recursive: true }));

test('float16 values are rounded to nearest, ties to even', () => {
  const cases: [number, number][] = [
    [0, 0],
    [-0, 0x8000],
    [1, 0x3c00],
    [-2, 0xc000],
    [65_504, 0x7bff],
    [65_519, 0x7bff],
    [65_520, 0x7c00],
    [Infinity, 0x7c00],
    [NaN, 0x7e00],
    [2 ** -14, 0x0400],
    [2 ** -24, 1],
    [2 ** -25, 0],
    [1.5 * 2 ** -24, 2],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [0.1, 0x2e66],
  ];
  for (const [value, half] of cases) assert.is(toHalf(value), half, String(value));
});

test('a Q8_0 block is a scale and 32 signed bytes', () => {
  const values = Float32Array.from({ length: 32 }, (_, index) => (index === 3 ? -127 : index / 2));
  const bytes = encode('Q8_0', values);
  assert.is(bytes.length, 34);
  assert.equal([...bytes.subarray(0, 6)], [0, 0x3c, 0, 1, 1, 129]);
});

test('a Q4_0 block is a scale and 32 nibbles, the halves interleaved', () => {
  const values = new Float32Array(32);
  values[0] = -8;
  values[1] = 7;
  values[16] = 3;
  const bytes = encode('Q4_0', values);
  assert.is(bytes.length, 18);
  assert.equal([...bytes.subarray(0, 5)], [0, 0x3c, 0xb0, 0x8f, 0x88]);
});

test('a block of zeros stays zero', () => {
  assert.equal([...encode('Q8_0', new Float32Array(32))], Array(34).fill(0));
  // The scale is 0 / -8, as ggml computes it.
  assert.equal([...encode('Q4_0', new Float32Array(32))], [0, 0x80, ...Array(16).fill(0x88)]);
});

test('weights have the requested deviation, and differ for each tensor name', () => {
  const rows = { rows: 100, rowLength: 1000, mean: 1, deviation: 0.5 };
  const [first, again, other] = ['a', 'a', 'b'].map((name) =>
    [...randomRows({ name, ...rows })].flatMap((piece) => [...piece]),
  ) as [number[], number[], number[]];
  const mean = first.reduce((sum, value) => sum + value, 0) / first.length;
  const deviation = Math.sqrt(first.reduce((sum, value) => sum + (value - mean) ** 2, 0) / first.length);
  assert.ok(Math.abs(mean - 1) < 0.01 && Math.abs(deviation - 0.5) < 0.01, `${mean} ± ${deviation}`);
  assert.equal(first, again);
  assert.not.equal(first, other);
});

test('a recipe makes the same bytes each time, and a correct existing file is not rewritten', async ({ dir, make }) => {
  const [first, second] = [join(dir, 'first.gguf'), join(dir, 'second.gguf')];
  await make('tiny-gemma', '--type', 'Q4_0', '--out', first);
  await make('tiny-gemma', '--type', 'Q4_0', '--out', second);
  assert.ok((await readFile(first)).equals(await readFile(second)));

  const { mtimeMs } = await stat(first);
  assert.match(await make('tiny-gemma', '--type', 'Q4_0', '--out', first), /up to date/);
  assert.is((await stat(first)).mtimeMs, mtimeMs);

  await truncate(first, 100_000);
  assert.match(await make('tiny-gemma', '--type', 'Q4_0', '--out', first), /MB in/);
  assert.ok((await readFile(first)).equals(await readFile(second)));
  assert.match(await make('tiny-gemma', '--type', 'Q8_0', '--out', first), /MB in/);
  assert.equal((await readdir(dir)).sort(), ['first.gguf', 'second.gguf']);
});

test('real vocabularies are copied byte for byte', async () => {
  const made = join(ROOT, 'build', 'models', 'tiny-qwen2.gguf');
  const real = join(ROOT, 'build', 'llama.cpp', 'models', 'ggml-vocab-qwen2.gguf');
  const entryBytes = async (path: string, key: string): Promise<Buffer> => {
    const { start, end } = (await readGgufHeader(path)).metadata.get(key)!;
    return (await readFile(path)).subarray(start, end);
  };
  for (const key of ['tokens', 'token_type', 'merges', 'pre', 'model'].map((name) => `tokenizer.ggml.${name}`)) {
    assert.ok((await entryBytes(made, key)).equals(await entryBytes(real, key)), key);
  }
});

test.run();
