import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { healthFor, WITHHELD } from '../../src/daemon/withhold.ts';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import type { HealthRecord } from '../../src/protocol/records.ts';

const RECORD = {
  reason: 'providers: acme: secret.example',
  conditions: [
    { name: 'engine', status: 'ok', reason: 'tokens', since: '' },
    { name: 'providers', status: 'warn', reason: 'acme: secret.example', since: '' },
  ],
  models: [{ id: 'tiny', pid: 7 }],
  providers: [{ name: 'acme', reason: 'PROVIDER_FAILED' }],
} as unknown as HealthRecord;

test('for callers below admin, the health record names no provider and no process', () => {
  const guest = { kind: 'key', name: 'guest', address: '::1', scope: 'inference' } as const;
  for (const caller of [guest, { ...guest, scope: 'local' } as const, null]) {
    const shown = healthFor(RECORD, caller);
    assert.not.match(JSON.stringify(shown), /acme|secret|"pid":7/);
    assert.is(shown.reason, WITHHELD);
    assert.is(shown.models[0]?.id, 'tiny');
  }
  assert.is(healthFor(RECORD, CONTROL_CALLER), RECORD);
});

test.run();
