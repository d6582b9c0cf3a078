/** What a key with a list of models may use, and what it is told about the rest. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import type { ProviderRecord } from '../../src/protocol/records.ts';
import { decideWithin } from '../../src/routing/allow-list.ts';
import type { Plan } from '../../src/routing/policy.ts';
import { rejection } from '../support/errors.ts';

function provider(name: string, default_model: string | null, more: Partial<ProviderRecord> = {}): ProviderRecord {
  return {
    name,
    kind: name === 'local' ? 'local' : 'openai',
    base_url: null,
    endpoints: [],
    default_model,
    credential: { source: 'env', name: 'X', present: true },
    enabled: true,
    default_cloud: false,
    state: 'unknown',
    embedding_model: null,
    last_checked_at: null,
    last_error: null,
    ...more,
  };
}
const PROVIDERS = [provider('local', null), provider('openai', 'gpt-5'), provider('off', 'x', { enabled: false })];
const POLICIES = { smart: { candidates: ['openai/gpt-5', 'local/tiny'], fallback_on: [] } };
const MODELS = [
  { id: 'tiny', aliases: ['small'] },
  { id: 'big', aliases: [] },
];
const find = (name = 'big') => {
  const found = MODELS.find(({ id, aliases }) => [id, ...aliases].includes(name));
  return found === undefined
    ? Promise.reject(new SvcError('MODEL_NOT_FOUND', `of the store, which might name others than ${name}`))
    : Promise.resolve(found);
};

const ask = (models: string[], request: Pick<GenerateRequest, 'model' | 'route'>): Promise<Plan> =>
  decideWithin(models, request, { providers: PROVIDERS, policies: POLICIES, find });
const target = async (...args: Parameters<typeof ask>): Promise<string> => {
  const { candidates } = await ask(...args);
  return candidates.map(({ provider: at, model = '' }) => `${at}/${model}`).join(' ');
};

test('a listed model is used by any of its names', async () => {
  for (const models of [['tiny'], ['SMALL'], ['local/tiny'], ['local']]) {
    assert.is(await target(models, { model: 'tiny' }), 'local/tiny');
    assert.is(await target(models, { model: 'small' }), 'local/small');
    assert.is(await target(models, { model: 'local/tiny', route: 'local' }), 'local/tiny');
  }
  assert.is(await target(['big'], {}), 'local/', 'the default model');
});

test('a listed provider is used with all its models, a listed model of it alone', async () => {
  assert.is(await target(['openai'], { model: 'openai/o3' }), 'openai/o3');
  assert.is(await target(['openai'], { route: 'cloud' }), 'openai/');
  assert.is(await target(['openai/gpt-5'], { model: 'openai/gpt-5' }), 'openai/gpt-5');
  assert.is(await target(['openai/gpt-5'], { route: 'provider:openai' }), 'openai/', 'its default model');
  await rejection(() => ask(['openai/gpt-5'], { model: 'openai/o3' }), 'MODEL_NOT_FOUND');
});

test('a listed policy is used with its candidates, which stay closed by themselves', async () => {
  assert.is(await target(['smart'], { model: 'smart' }), 'openai/gpt-5 local/tiny');
  await rejection(() => ask(['smart'], { model: 'tiny' }), 'MODEL_NOT_FOUND');
  await rejection(() => ask(['smart'], { model: 'openai/gpt-5' }), 'MODEL_NOT_FOUND');
});

test('what is not listed is told as what does not exist', async () => {
  for (const model of ['big', 'nothing', 'smart', 'openai/gpt-5', 'off/x', 'nobody/x']) {
    const { message, hint, param } = await rejection(() => ask(['tiny'], { model }), 'MODEL_NOT_FOUND');
    assert.equal([message, hint, param], [`no model is named '${model}'`, 'see GET /v1/models', 'model']);
  }
  for (const name of ['openai', 'off', 'nobody'])
    await rejection(() => ask(['tiny'], { route: `provider:${name}` }), 'NOT_FOUND', /no provider is named/);
  await rejection(() => ask(['tiny'], { route: 'cloud' }), 'CONFIG_INVALID', /no cloud provider is configured/);
  await rejection(() => ask(['tiny'], {}), 'MODEL_NOT_FOUND', /no default model for this API key/);
});

test.run();
