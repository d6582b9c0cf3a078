/** docs/providers.md says of each API of providers what the tests show. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { declared, page, table } from '../../scripts/feature-table.ts';
import { FEATURES } from '../backends/cloud/features.ts';

test('the table of features is what the tests declare', () => {
  assert.is(page().table, table(declared()), 'run: node --import tsx scripts/feature-table.ts');
});

test('the tests of each API declare all features', () => {
  for (const [api, shown] of Object.entries(declared())) {
    const missing = FEATURES.filter((feature) => !shown.has(feature));
    assert.equal(missing, [], `${api} says nothing of these`);
  }
});

test.run();
