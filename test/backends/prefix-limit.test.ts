/** The size limit of the prefix files reaches engines that were loading when it was changed, with fake engines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../support/wait.ts';
import { collect, context } from './conformance.ts';
import { makeFakeLocal } from './fake-local.ts';
import { ask, testWith, textOf } from './local-support.ts';

testWith(
  'a limit that changes during a load reaches its engine',
  () => makeFakeLocal({ one: { loadMs: 2000 } }),
  async ({ backend, starts, log }) => {
    const asked = collect(backend.generate(ask('say 1', 'one'), context()));
    await waitFor('the load', async () => (await starts('one')).length === 1);
    backend.setPrefixBytes(5000);
    assert.is(textOf(await asked), 'word ');
    await waitFor('the new limit', () => log.some(({ fields }) => fields['line'] === 'prefix_bytes 5000'));
  },
);

test.run();
