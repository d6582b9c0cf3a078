import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readLines } from '../../src/backends/local/child-output.ts';

async function lines(...chunks: (string | Buffer)[]): Promise<string[]> {
  const stream = new PassThrough();
  const found: string[] = [];
  readLines(stream, (line) => found.push(line));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await once(stream, 'end');
  return found;
}

test('lines, wherever the chunks end', async () => {
  assert.equal(await lines('a', 'b\nc', '\n\n  \nd'), ['ab', 'c', 'd']);
});

test('a character that is split over chunks', async () => {
  const bytes = Buffer.from('Zürich\n');
  assert.equal(await lines(bytes.subarray(0, 2), bytes.subarray(2)), ['Zürich']);
});

test('a line without an end is cut, and costs no more memory', async () => {
  const found = await lines(...Array.from({ length: 100 }, () => 'x'.repeat(10_000)), '\nnext\n');
  assert.is(found[0]?.length, 2048);
  assert.is(found[1], 'next');
});

test('a flood is cut, and its amount said', async () => {
  const found = await lines('flood\n'.repeat(5000));
  assert.ok(found.length < 200);
  const dropped = found.flatMap((line) => /^\((\d+) lines dropped\)$/.exec(line)?.[1] ?? []).map(Number);
  const kept = found.filter((line) => line === 'flood').length;
  assert.is(
    dropped.reduce((sum, count) => sum + count, kept),
    5000,
  );
});

test.run();
