/** Names of models that are listed, by what `decide` does with them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { listedNamed } from '../../src/protocol/model/listed.ts';
import type { ModelRecord, ProviderRecord } from '../../src/protocol/records.ts';
import { listModels, type ListedFrom } from '../../src/routing/listed.ts';
import { LOCAL, TINY } from '../http/scripted.ts';

const KEY = { source: 'env', name: 'KEY', present: true } as const;
const provider = (name: string, more: Partial<ProviderRecord> = {}): ProviderRecord => ({
  ...LOCAL,
  name,
  kind: 'openai',
  default_model: 'big',
  credential: KEY,
  ...more,
});
const SMALL: ModelRecord = {
  ...TINY,
  id: 'small-one',
  aliases: [],
  default: false,
  capabilities: ['chat', 'tools', 'vision'],
  settings: { context_length: 512 },
};
const BASE: ListedFrom = { models: [TINY], providers: [LOCAL], policies: {}, defaults: {}, scope: 'admin' };
const list = (changes: Partial<ListedFrom> = {}) => listModels({ ...BASE, ...changes });
const ids = (changes: Partial<ListedFrom> = {}): string[] => list(changes).map(({ id }) => id);
const policy = (...candidates: string[]) => ({ candidates, fallback_on: [] });

test('models of this machine, but those that cannot be used', () => {
  const models = [TINY, SMALL, { ...TINY, id: 'broken', default: false, state: 'failed' as const }];
  assert.equal(ids({ models }), ['tiny', 'small-one']);
  assert.is(listedNamed('default', list({ models }))?.id, 'tiny');
  assert.is(listedNamed('org/tiny', list({ models }))?.id, 'tiny');
  assert.is(listedNamed('broken', list({ models })), undefined);
});

test('the default models of the providers that can be used', () => {
  const providers = [
    LOCAL,
    provider('acme', { default_model: 'org/big' }),
    provider('keyless', { credential: { ...KEY, present: false } }),
    provider('needs-none', { credential: LOCAL.credential }),
    provider('off', { enabled: false }),
    provider('open', { default_model: null }),
  ];
  assert.equal(ids({ providers }), ['tiny', 'acme/org/big', 'needs-none/big']);
  const found = listedNamed('acme/org/big', list({ providers }));
  assert.equal([found?.kind, found?.owner, found?.context_length], ['provider', 'acme', null]);
  assert.equal([found?.capabilities, found?.capabilities_tried], [['chat'], false]);
});

test("a provider's default model for embeddings is listed as one, and so is a policy of it", () => {
  const providers = [
    LOCAL,
    provider('acme', { embedding_model: 'vectors' }),
    provider('only', { default_model: null }),
  ];
  const policies = { vectors: policy('acme/vectors'), both: policy('acme/vectors', 'acme') };
  const all = list({ providers, policies });
  assert.equal(
    all.filter(({ kind }) => kind !== 'local').map(({ id, capabilities }) => [id, capabilities]),
    [
      ['acme/big', ['chat']],
      ['acme/vectors', ['embedding']],
      ['vectors', ['embedding']],
      ['both', []],
    ],
  );
});

test('a caller without providers sees none, nor policies that need them', () => {
  const providers = [LOCAL, provider('acme')];
  const policies = { mixed: policy('acme', 'local'), far: policy('acme') };
  assert.equal(ids({ providers, policies, scope: 'inference' }), ['tiny', 'acme/big', 'mixed', 'far']);
  assert.equal(ids({ providers, policies, scope: 'local' }), ['tiny', 'mixed']);
  const mixed = listedNamed('mixed', list({ providers, policies, scope: 'local' }));
  assert.is(mixed?.context_length, 4096, 'of the candidates that are left');
});

test('a name that a provider or a policy answers is theirs', () => {
  const models = [TINY, { ...SMALL, id: 'acme/mine' }, { ...SMALL, id: 'local/x' }];
  const providers = [LOCAL, provider('acme')];
  assert.equal(ids({ models, providers }), ['tiny', 'acme/big']);
  assert.equal(ids({ models, providers: [LOCAL, provider('acme', { enabled: false })] }), ['tiny']);
  const shadowed = list({ models, policies: { tiny: policy('local/small-one', 'local') } });
  assert.equal(
    shadowed.map(({ id, kind }) => [id, kind]),
    [
      ['acme/mine', 'local'],
      ['tiny', 'policy'],
    ],
  );
});

test('the length of a context: as loaded, as set, as trained', () => {
  const lengthOf = (record: ModelRecord, context_length?: number): number | null | undefined =>
    list({ models: [record], defaults: context_length === undefined ? {} : { context_length } })[0]?.context_length;
  const loaded = { ...TINY.loaded, context_length: 256 } as NonNullable<ModelRecord['loaded']>;
  assert.is(lengthOf(TINY), 4096);
  assert.is(lengthOf(TINY, 2048), 2048);
  assert.is(lengthOf(SMALL, 2048), 512);
  assert.is(lengthOf({ ...SMALL, loaded }, 2048), 256);
  assert.is(lengthOf({ ...TINY, context_length: null }), null);
});

test('a policy has what each candidate that can answer has', () => {
  const models = [{ ...TINY, capabilities: ['chat', 'tools', 'thinking'] as const }, SMALL];
  const providers = [LOCAL, provider('acme'), provider('off', { enabled: false })];
  const policies = {
    both: policy('local', 'local/small-one', 'off', 'local/missing', 'gone/x'),
    mixed: policy('local', 'acme/any'),
    none: policy('off', 'local/missing'),
    default: policy('local/small-one'),
  };
  const all = list({ models, providers, policies });
  assert.equal(
    all.filter(({ kind }) => kind === 'policy').map(({ id }) => id),
    ['both', 'mixed', 'default'],
  );
  const both = listedNamed('both', all);
  assert.equal([both?.context_length, both?.capabilities, both?.capabilities_tried], [512, ['chat', 'tools'], true]);
  const mixed = listedNamed('mixed', all);
  assert.equal([mixed?.context_length, mixed?.capabilities, mixed?.capabilities_tried], [null, ['chat'], false]);
  assert.is(listedNamed('default', all)?.kind, 'policy');
});

test.run();
