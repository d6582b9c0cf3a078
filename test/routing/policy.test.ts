import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/protocol/errors.ts';
import type { ProviderRecord } from '../../src/protocol/records.ts';
import { decide, type Decision } from '../../src/routing/policy.ts';

const provider = (name: string, more: Partial<ProviderRecord> = {}): ProviderRecord => ({
  name,
  kind: name === 'local' ? 'local' : 'openai',
  base_url: null,
  endpoints: [],
  default_model: null,
  credential: { source: 'none', name: null, present: false },
  enabled: true,
  default_cloud: false,
  state: 'unknown',
  last_checked_at: null,
  last_error: null,
  ...more,
});
const withKey = { credential: { source: 'env', name: 'KEY', present: true } } as const;

const LOCAL = provider('local');
const A = provider('a', withKey);
const B = provider('b', withKey);
const KEYLESS = provider('keyless');

function refusal(act: () => unknown): SvcError {
  try {
    act();
  } catch (error) {
    return error as SvcError;
  }
  throw new Error('it was not refused');
}

const cases: readonly [model: string | undefined, route: string | undefined, expected: Decision][] = [
  [undefined, undefined, { requested: 'default', provider: 'local', model: undefined }],
  ['tiny', undefined, { requested: 'default', provider: 'local', model: 'tiny' }],
  ['org/tiny', undefined, { requested: 'default', provider: 'local', model: 'org/tiny' }],
  ['file:/a/b.gguf', undefined, { requested: 'default', provider: 'local', model: 'file:/a/b.gguf' }],
  ['a/gpt', undefined, { requested: 'provider:a', provider: 'a', model: 'gpt' }],
  ['a/org/gpt', undefined, { requested: 'provider:a', provider: 'a', model: 'org/gpt' }],
  ['local/tiny', undefined, { requested: 'provider:local', provider: 'local', model: 'tiny' }],
  ['a/', undefined, { requested: 'default', provider: 'local', model: 'a/' }],
  ['/a', undefined, { requested: 'default', provider: 'local', model: '/a' }],
  ['local/file:/etc/passwd', undefined, { requested: 'default', provider: 'local', model: 'local/file:/etc/passwd' }],
  ['a/gpt', 'local', { requested: 'local', provider: 'local', model: 'a/gpt' }],
  ['local/tiny', 'local', { requested: 'local', provider: 'local', model: 'tiny' }],
  ['local/file:/etc/passwd', 'local', { requested: 'local', provider: 'local', model: 'local/file:/etc/passwd' }],
  ['b/gpt', 'provider:a', { requested: 'provider:a', provider: 'a', model: 'b/gpt' }],
  ['a/gpt', 'provider:a', { requested: 'provider:a', provider: 'a', model: 'gpt' }],
  [undefined, 'provider:keyless', { requested: 'provider:keyless', provider: 'keyless', model: undefined }],
  [undefined, 'provider:local', { requested: 'provider:local', provider: 'local', model: undefined }],
];

test('a route outweighs a name, and a name counts only when a provider has it', () => {
  for (const [model, route, expected] of cases) {
    const request = { ...(model === undefined ? {} : { model }), ...(route === undefined ? {} : { route }) };
    assert.equal(decide(request, [LOCAL, A, B, KEYLESS]), expected, JSON.stringify(request));
  }
});

test('cloud is the default provider, or the only one with a credential', () => {
  const cloud = (...records: ProviderRecord[]): string => decide({ route: 'cloud' }, [LOCAL, ...records]).provider;
  assert.is(cloud(A), 'a');
  assert.is(cloud(KEYLESS, A), 'a');
  assert.is(cloud(A, { ...B, default_cloud: true }), 'b');
  assert.is(cloud(A, { ...KEYLESS, default_cloud: true }), 'keyless', 'an explicit default, whatever its key');
  assert.is(cloud({ ...A, enabled: false }, B), 'b');
});

test('cloud without an answer is a configuration error that names the commands', () => {
  for (const records of [[], [KEYLESS], [{ ...A, enabled: false }]]) {
    const error = refusal(() => decide({ route: 'cloud' }, [LOCAL, ...records]));
    assert.is(error.code, 'CONFIG_INVALID');
    assert.is(error.facts.exit, 78);
    assert.match(error.hint ?? '', /svc provider set .* --api-key-env/);
  }
  const several = refusal(() => decide({ route: 'cloud' }, [LOCAL, A, B]));
  assert.is(several.code, 'CONFIG_INVALID');
  assert.match(several.message, /\(a, b\)/);
  assert.match(several.hint ?? '', /--default/);
});

test('an unknown provider and an unknown route are refused', () => {
  const missing = refusal(() => decide({ route: 'provider:nobody' }, [LOCAL, A]));
  assert.is(missing.code, 'CONFIG_INVALID');
  assert.match(missing.message, /'nobody'/);
  assert.match(missing.hint ?? '', /svc provider list/);
  for (const route of ['', 'Local', 'provider', 'clouds']) {
    const error = refusal(() => decide({ route }, [LOCAL]));
    assert.is(error.code, 'INVALID_REQUEST');
    assert.is(error.param, 'route');
  }
});

test.run();
