import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { given } from '../../src/protocol/given.ts';
import type { ProviderRecord } from '../../src/protocol/records.ts';
import { checkRoute, decide, within, mayFallBack, type Candidate, type Policies } from '../../src/routing/policy.ts';

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
  embedding_model: null,
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

type Expected = { readonly requested: string } & Candidate;
const cases: readonly [model: string | undefined, route: string | undefined, expected: Expected][] = [
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

test('an explicit route overrides a model prefix, which counts only if a provider has that name', () => {
  for (const [model, route, expected] of cases) {
    const request = { ...given({ model, route }) };
    const { requested, ...candidate } = expected;
    const plan = { requested, candidates: [candidate], fallbackOn: [] };
    assert.equal(decide(request, [LOCAL, A, B, KEYLESS]), plan, JSON.stringify(request));
  }
});

test('route cloud means the default provider, or the only one with a credential', () => {
  const cloud = (...records: ProviderRecord[]): string | undefined =>
    decide({ route: 'cloud' }, [LOCAL, ...records]).candidates[0]?.provider;
  assert.is(cloud(A), 'a');
  assert.is(cloud(KEYLESS, A), 'a');
  assert.is(cloud(A, { ...B, default_cloud: true }), 'b');
  assert.is(cloud(A, { ...KEYLESS, default_cloud: true }), 'keyless', 'an explicit default, whatever its key');
  assert.is(cloud({ ...A, enabled: false }, B), 'b');
});

test('route cloud without a provider is a configuration error that names the commands', () => {
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
  // The client named the provider, so this is not a configuration error.
  assert.is(missing.code, 'NOT_FOUND');
  assert.match(missing.message, /'nobody'/);
  assert.match(missing.hint ?? '', /svc provider list/);
  for (const route of ['', 'Local', 'provider', 'clouds']) {
    const error = refusal(() => decide({ route }, [LOCAL]));
    assert.is(error.code, 'INVALID_REQUEST');
    assert.is(error.param, 'route');
  }
});

test('a disabled provider is refused by name, however it is selected', () => {
  const off = { ...A, enabled: false };
  for (const request of [{ route: 'provider:a' }, { model: 'a/gpt' }]) {
    const error = refusal(() => decide(request, [LOCAL, off]));
    assert.is(error.code, 'CONFIG_INVALID');
    assert.match(error.hint ?? '', 'svc config set providers.a.enabled true');
  }
});

test('requests with a key of scope local are answered only by this machine', () => {
  const plan = (request: Parameters<typeof decide>[0]) => decide(request, [LOCAL, A], POLICIES);
  assert.equal(
    within(plan({}), 'local').candidates.map(({ provider }) => provider),
    ['local'],
    'of a policy',
  );
  assert.is(within(plan({ model: 'tiny' }), 'local').candidates.length, 1);
  for (const request of [{ route: 'provider:a' }, { route: 'cloud' }, { model: 'a/gpt' }]) {
    const error = refusal(() => within(plan(request), 'local'));
    assert.is(error.code, 'FORBIDDEN');
    assert.match(error.hint ?? '', /--scope inference/);
    for (const scope of ['inference', 'admin'] as const) assert.equal(within(plan(request), scope), plan(request));
  }
});

test('a key of scope local cannot find out which providers exist by naming them', () => {
  for (const route of ['provider:a', 'provider:unknown', 'cloud']) {
    assert.is(refusal(() => checkRoute(route, 'local')).code, 'FORBIDDEN');
    for (const scope of ['inference', 'admin'] as const) checkRoute(route, scope);
  }
  for (const route of [undefined, 'local']) checkRoute(route, 'local');
});

const POLICIES: Policies = {
  default: { candidates: ['local', 'a'], fallback_on: ['unavailable', 'overloaded'] },
  fast: { candidates: ['a/org/small', 'local/tiny'], fallback_on: ['model_missing'] },
};

test('a policy is selected by the model name, or by default if nothing is specified', () => {
  assert.equal(decide({}, [LOCAL, A], POLICIES), {
    requested: 'default',
    candidates: [
      { provider: 'local', model: undefined },
      { provider: 'a', model: undefined },
    ],
    fallbackOn: ['unavailable', 'overloaded'],
  });
  assert.equal(decide({ model: 'fast' }, [LOCAL, A], POLICIES), {
    requested: 'policy:fast',
    candidates: [
      { provider: 'a', model: 'org/small' },
      { provider: 'local', model: 'tiny' },
    ],
    fallbackOn: ['model_missing'],
  });
  assert.equal(decide({ model: 'tiny' }, [LOCAL, A], POLICIES).candidates, [{ provider: 'local', model: 'tiny' }]);
  assert.equal(decide({ model: 'constructor' }, [LOCAL], POLICIES).requested, 'default');
});

test('an explicit choice has one candidate, and so has a request without fallback', () => {
  for (const request of [{ route: 'local' }, { route: 'provider:a' }, { model: 'a/gpt' }]) {
    assert.is(decide(request, [LOCAL, A], POLICIES).candidates.length, 1);
  }
  assert.equal(decide({ fallback: false }, [LOCAL, A], POLICIES).candidates, [{ provider: 'local', model: undefined }]);
});

test('a plan falls back only on its own conditions', () => {
  const plan = decide({}, [LOCAL, A], POLICIES);
  assert.ok(mayFallBack(plan, new SvcError('BUSY', '')));
  assert.ok(mayFallBack(plan, new SvcError('ENGINE_UNAVAILABLE', '')));
  for (const code of ['CONTEXT_OVERFLOW', 'MODEL_NOT_FOUND', 'INVALID_REQUEST', 'CANCELLED'] as const) {
    assert.not.ok(mayFallBack(plan, new SvcError(code, '')), code);
  }
});

test.run();
