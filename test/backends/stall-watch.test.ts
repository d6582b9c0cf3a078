/** Which engines count as stalled, judged by their heartbeats on the real clock. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { StallWatch } from '../../src/backends/local/stall-watch.ts';
import type { NativeStats } from '../../src/engine/addon.ts';
import { waitFor } from '../support/wait.ts';

/** Far longer than the pause between two heartbeats. */
const TIMEOUT_MS = 400;
const BEAT_MS = 10;
const SUBMITS = { done: 0, oldest: null };

/** Sends heartbeats with what `step` returns until the engine counts as stalled, or for some timeouts. */
async function watched(step: (beat: number) => { count?: number; age?: number; operations?: number }): Promise<string> {
  let stalled = '';
  const watch = new StallWatch({
    timeoutMs: TIMEOUT_MS,
    onStall: (what) => (stalled = what),
    onSilence: () => undefined,
  });
  watch.loaded();
  let beats = 0;
  const timer = setInterval(() => {
    const { count = 1, age = 1, operations = 0 } = step(beats++);
    watch.heard();
    watch.beat({ steps: { count }, step_age_ms: age, operations } as unknown as NativeStats, SUBMITS);
  }, BEAT_MS);
  const until = performance.now() + 4 * TIMEOUT_MS;
  await waitFor('a stall or the end', () => stalled !== '' || performance.now() > until);
  clearInterval(timer);
  watch.stop();
  return stalled;
}

test('a step that shows no progress is a stall', async () => {
  assert.match(await watched(() => ({})), /^was in one step for/);
  assert.match(await watched((beat) => ({ age: 1 + beat * BEAT_MS })), /^was in one step for/);
});

test('an engine that goes on is none, however long a step lasts', async () => {
  assert.is(await watched((beat) => ({ count: beat })), '');
  assert.is(await watched((beat) => ({ operations: beat, age: 1 + beat * BEAT_MS })), '', 'a long batch of an encoder');
  assert.is(await watched((beat) => ({ age: 1 + ((beat * 7) % 20) })), '', 'stretches of a prompt in the lane');
  assert.is(await watched(() => ({ age: 0 })), '', 'idle');
});

test.run();
