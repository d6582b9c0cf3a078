import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { askChild } from '../../src/engine/ask-child.ts';
import { pace, readLines, readText } from '../../src/engine/child-output.ts';
import { encodeFrame } from '../../src/engine/frames.ts';

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
  const since = performance.now();
  const count = pace(stream, 1000);
  let sent = 0;
  for (; !stream.isPaused() && sent < 1_000_000; sent += 1) count(1);
  const most = 251 + performance.now() - since;
  assert.ok(sent > 250 && sent <= most, `${String(sent)} of ${String(most)}`);
  await once(stream, 'resume');
  // What was sent meanwhile is passed on.
  stream.write('x');
  await once(stream, 'data');
});

test('a flood of text is read later', async () => {
  const stream = new PassThrough();
  let read = 0;
  readText(stream, (text) => (read += text.length));
  const paused = once(stream, 'pause');
  // Each is more than may arrive at once, however much time passes between them.
  const flood = 'x'.repeat(512 * 1024);
  for (let sent = 0; sent < 2; sent += 1) stream.write(flood);
  await paused;
  assert.is(read, flood.length);
  stream.end();
  await once(stream, 'end');
  assert.is(read, 2 * flood.length);
});

test('a process that was asked one question cannot flood the daemon with frames', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-flood-'));
  const entry = join(directory, 'entry.mjs');
  const many = Buffer.concat(Array.from({ length: 1000 }, () => encodeFrame({ type: 'progress', fraction: 0.5 })));
  await writeFile(
    entry,
    `import { writeSync } from 'node:fs';
     const frames = Buffer.from('${many.toString('base64')}', 'base64');
     for (;;) writeSync(3, frames);`,
  );
  const enough = new AbortController();
  let count = 0;
  let firstAt = 0;
  await askChild({
    entry,
    ask: { type: 'probe', measure: false, parentPid: process.pid },
    signal: enough.signal,
    read() {
      if (count === 0) {
        firstAt = performance.now();
        setTimeout(() => enough.abort(), 2000);
      }
      count += 1;
      return undefined;
    },
  });
  const seconds = (performance.now() - firstAt) / 1000;
  await rm(directory, { recursive: true });
  assert.ok(count > 0 && count < 40_000 * (seconds + 1), `${String(count)} frames in ${String(seconds)} s`);
});

test.run();
