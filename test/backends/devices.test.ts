/** Free device memory is as last reported by an engine, or unknown. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../support/wait.ts';
import { collect, context } from './conformance.ts';
import { makeFakeLocal } from './fake-local.ts';
import { ask } from './local-support.ts';

test('free memory follows the reports of engines, and becomes unknown when reports stop', async () => {
  const { backend, dispose } = await makeFakeLocal({ one: {} });
  const free = (): number | null | undefined => backend.devices()[0]?.memory_free_bytes;
  try {
    assert.equal(backend.devices(), [], 'no engine has been loaded');
    await collect(backend.generate(ask('say 3', 'one'), context()));
    await waitFor('the first figure', () => free() === 997);
    await collect(backend.generate(ask('say 5', 'one'), context()));
    await waitFor('the figure to follow', () => free() === 992);
    assert.equal(backend.devices(), [
      { name: 'Card0', backend: 'Fake', type: 'gpu', memory_total_bytes: 1000, memory_free_bytes: 992 },
    ]);

    await backend.unload('one');
    await waitFor('the figure to be forgotten', () => free() === null);
    assert.is(backend.devices()[0]?.memory_total_bytes, 1000, 'the device is still there');
  } finally {
    await dispose();
  }
});

test.run();
