import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { pace, readLines } from '../../src/backends/local/child-output.ts';

async function lines(...chunks: (string | Buffer)[]): Promise<string[]> {
  const stream = new PassThrough();
  const found: string[] = [];
  readLines(stream, (line) => found.push(line));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await once(stream, 'end');
  return found;
}

test('chunks are split into lines wherever the chunk boundaries are', async () => {
  assert.equal(await lines('a', 'b\nc', '\n\n  \nd'), ['ab', 'c', 'd']);
});

test('a character split across chunks is decoded whole', async () => {
  const bytes = Buffer.from('Zürich\n');
  assert.equal(await lines(bytes.subarray(0, 2), bytes.subarray(2)), ['Zürich']);
});

test('an unterminated line is truncated, so its memory stays bounded', async () => {
  const found = await lines(...Array.from({ length: 100 }, () => 'x'.repeat(10_000)), '\nnext\n');
  assert.is(found[0]?.length, 2048);
  assert.is(found[1], 'next');
});

test('a flood of lines is dropped, and the number of dropped lines is logged', async () => {
  const found = await lines('flood\n'.repeat(5000));
  assert.ok(found.length < 200);
  const dropped = found.flatMap((line) => /^\(rate limit: (\d+) lines dropped\)$/.exec(line)?.[1] ?? []).map(Number);
  const kept = found.filter((line) => line === 'flood').length;
  assert.is(
    dropped.reduce((sum, count) => sum + count, kept),
    5000,
  );
});

test('a stream that is read too fast is paused, and goes on later', async () => {
  const stream = new PassThrough().resume();
  const count = pace(stream, 1000);
  for (let sent = 0; sent < 200; sent += 1) count(1);
  assert.not.ok(stream.isPaused());
  count(200);
  assert.ok(stream.isPaused());
  await once(stream, 'resume');
  // What was sent meanwhile is passed on.
  stream.write('x');
  await once(stream, 'data');
});

test.run();
