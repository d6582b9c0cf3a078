/** docs/providers.md says of each API of providers what the tests show. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { declared, page, table } from '../../scripts/feature-table.ts';
import { FEATURES } from '../backends/cloud/features.ts';

test('the table of features is what the tests declare', () => {
  assert.is(page().table, table(declared()), 'run: node --import tsx scripts/feature-table.ts');
});

test('an API whose tests declare features declares all of them', () => {
  for (const [api, shown] of Object.entries(declared())) {
    if (shown.size === 0) continue;
    const missing = FEATURES.filter((feature) => !shown.has(feature));
    assert.equal(missing, [], `${api} says nothing of these`);
  }
});

test.run();
