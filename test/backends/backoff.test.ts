/** Which requests are blamed for a crash of their engine. */
import { mock } from 'node:test';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Culprits } from '../../src/backends/local/backoff.ts';
import { Suspects } from '../../src/backends/local/suspects.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const CRASH = new SvcError('ENGINE_CRASHED', 'the engine of one exited with code 1');
const [ONE, OTHER] = [{ prompt: 'one' }, { prompt: 'other' }];
const { signal } = new AbortController();

test.before.each(() => mock.timers.enable({ apis: ['setTimeout'] }));
test.after.each(() => mock.timers.reset());

/** Those of the two that have to be alone next time. */
async function blamed(culprits: Culprits): Promise<object[]> {
  const requests = [];
  for (const request of [ONE, OTHER]) if (await culprits.rest(request, signal)) requests.push(request);
  return requests;
}

test('a request that is retried alone, until its turn is over', async () => {
  for (const [ms, expected] of [
    [9_000, [ONE]],
    [11_000, []],
  ] as const) {
    const [suspects, culprits] = [new Suspects(), new Culprits('one')];
    culprits.enter(ONE, 1, await suspects.turn(signal));
    mock.timers.tick(ms);
    culprits.enter(OTHER, 2, undefined);
    culprits.failuresAfter(CRASH, 0, null);
    assert.equal(await blamed(culprits), expected, String(ms));
  }
});

test('a request whose preparation did not end, whatever else is in the engine', async () => {
  const culprits = new Culprits('one');
  culprits.enter(ONE, 1, undefined);
  culprits.enter(OTHER, 2, undefined);
  culprits.failuresAfter(CRASH, 0, 1);
  assert.equal(await blamed(culprits), [ONE]);
});

test('nobody, if that request has left', async () => {
  const culprits = new Culprits('one');
  const visit = culprits.enter(ONE, 1, undefined);
  culprits.enter(OTHER, 2, undefined);
  culprits.leave(visit, 'ended');
  assert.is(culprits.failuresAfter(CRASH, 3, 1), 4);
  assert.equal(await blamed(culprits), []);
});

test('a request that was given up, for a while', async () => {
  for (const [ms, expected] of [
    [4_000, [ONE]],
    [6_000, []],
  ] as const) {
    const culprits = new Culprits('one');
    culprits.leave(culprits.enter(ONE, 1, undefined), 'given up');
    mock.timers.tick(ms);
    culprits.failuresAfter(CRASH, 0, null);
    assert.equal(await blamed(culprits), expected, String(ms));
  }
});

test('a request beside one that was given up is not known to be the cause', async () => {
  const culprits = new Culprits('one');
  culprits.leave(culprits.enter(ONE, 1, undefined), 'given up');
  culprits.enter(OTHER, 2, undefined);
  assert.is(culprits.failuresAfter(CRASH, 3, null), 4);
  assert.equal(await blamed(culprits), []);
});

test('a request that leaves after the crash is not in the next engine', async () => {
  const culprits = new Culprits('one');
  const visits = [culprits.enter(ONE, 1, undefined), culprits.enter(OTHER, 2, undefined)];
  culprits.failuresAfter(CRASH, 0, null);
  for (const visit of visits) culprits.leave(visit, 'given up');
  culprits.enter(OTHER, 3, undefined);
  culprits.failuresAfter(CRASH, 0, null);
  assert.equal(await blamed(culprits), [OTHER]);
});

test.run();
