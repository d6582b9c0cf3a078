/** The feature table in docs/providers.md lists what the tests of each provider API show. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { declared, page, table } from '../backends/cloud/feature-table.ts';
import { FEATURES } from '../backends/cloud/features.ts';

test('the feature table in docs/providers.md matches the declarations in the tests', () => {
  assert.is(page().table, table(declared()), 'run: node --import tsx test/backends/cloud/feature-table.ts');
});

test('the tests of each API declare every feature', () => {
  for (const [api, shown] of Object.entries(declared())) {
    const missing = FEATURES.filter((feature) => !shown.has(feature));
    assert.equal(missing, [], `${api} says nothing of these`);
  }
});

test.run();
