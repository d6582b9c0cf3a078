/** A load's progress in bytes, with its rate. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadProgress } from '../../src/backends/load-progress.ts';
import { waitFor } from '../support/wait.ts';

test('bytes are the fraction of the file, and their rate is known after the first', async () => {
  const progress = loadProgress(1000);
  const startedAt = performance.now();
  assert.equal(progress(0.25), {
    type: 'progress',
    fraction: 0.25,
    done_bytes: 250,
    total_bytes: 1000,
    bytes_per_second: null,
  });
  const sampledAt = performance.now();
  await waitFor('the clock', () => performance.now() - sampledAt > 5);
  const { done_bytes, bytes_per_second: rate } = progress(0.75);
  const mostMs = performance.now() - startedAt;
  assert.is(done_bytes, 750);
  assert.ok(rate !== null && rate >= 500 / (mostMs / 1000), 'no less than over the whole time');
  assert.is(progress(1.0001).done_bytes, 1000, 'libllama may report a little more than all');
});

test.run();
