/** Routing of embeddings, reranking and tokenizing, with scripted backends: whose models they may use. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Collector } from '../../src/protocol/collect.ts';
import type { EmbedEvent } from '../../src/protocol/embed.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { hello, measured, scored } from '../http/scripted.ts';
import { ALL, context, failure, make, provider } from './support.ts';

test('embeddings and rerankings fall back only to candidates with the same model', async () => {
  const candidates = ['a/one', 'b/two', 'c/one', 'd'];
  const fallback_on = ['unavailable', 'overloaded'] as const;
  const a = provider('a', hello);
  const others = ['b', 'c', 'd'].map((name) => provider(name, hello));
  const policies = { same: { candidates, fallback_on }, never: { candidates, fallback_on: [] } };
  const { router } = make(policies, a, ...others);
  a.embedScript = async function* () {
    throw new SvcError('BUSY', 'full', { retryable: false });
  };
  a.rerankScript = async function* () {
    throw new SvcError('PROVIDER_AUTH', 'no key');
  };
  const embed = (model: string): Promise<Collector> => Collector.of(router.embed({ model, input: ['x'] }, context()));
  const { route } = (await embed('same')).route;
  assert.equal([route.chosen, route.attempts.map((attempt) => attempt.provider)], ['c', ['a', 'c']]);
  assert.is((await failure(router.embed({ model: 'never', input: ['x'] }, context()))).code, 'BUSY');
  const ranking = { query: 'x', documents: ['y'] };
  const ranked = await Collector.of(router.rerank({ ...ranking, model: 'same' }, context()));
  assert.is(ranked.route.route.chosen, 'c');
  assert.is((await failure(router.rerank({ ...ranking, model: 'never' }, context()))).code, 'PROVIDER_AUTH');
  assert.equal(
    others.map(({ embedRequests, rerankRequests }) => [embedRequests.length, rerankRequests.length]),
    [
      [0, 0],
      [1, 1],
      [0, 0],
    ],
  );
});

test('embeddings use only the named model, without fallback', async () => {
  const a = provider('a', hello);
  const b = provider('b', hello);
  const { router, outcomes } = make(ALL, a, b);
  a.embedScript = async function* () {
    throw new SvcError('CONTEXT_OVERFLOW', 'too long');
  };
  assert.is((await failure(router.embed({ input: ['x'] }, context()))).code, 'CONTEXT_OVERFLOW');
  assert.equal([a.embedRequests, b.embedRequests], [[{ input: ['x'], model: 'one' }], []]);

  a.embedScript = measured;
  const events: EmbedEvent['type'][] = [];
  for await (const event of router.embed({ input: ['x', 'yy'], route: 'provider:a' }, context()))
    if (event.type !== 'route') events.push(event.type);
  assert.equal(events, ['start', 'vectors', 'vectors', 'finish']);
  assert.equal(
    outcomes.map(({ kind, outcome }) => [kind, outcome]),
    [
      ['embedding', 'CONTEXT_OVERFLOW'],
      ['embedding', 'ok'],
    ],
  );
  assert.is(router.active + router.waiting, 0);
});

test('reranking uses only the named model, without fallback', async () => {
  const a = provider('a', hello);
  const b = provider('b', hello);
  const { router, outcomes } = make(ALL, a, b);
  const request = { query: 'x', documents: ['y', 'zz'] };
  a.rerankScript = async function* () {
    throw new SvcError('CONTEXT_OVERFLOW', 'too long');
  };
  assert.is((await failure(router.rerank(request, context()))).code, 'CONTEXT_OVERFLOW');
  assert.equal([a.rerankRequests, b.rerankRequests], [[{ ...request, model: 'one' }], []]);

  a.rerankScript = scored;
  const { scores } = await Collector.of(router.rerank({ ...request, route: 'provider:a' }, context()));
  assert.equal(scores, [1, 2]);
  assert.equal(
    outcomes.map(({ kind, outcome }) => [kind, outcome]),
    [
      ['reranking', 'CONTEXT_OVERFLOW'],
      ['reranking', 'ok'],
    ],
  );
  assert.is(router.active + router.waiting, 0);
});

test('tokenizing uses only the named model, without fallback', async () => {
  const a = provider('a', hello);
  const b = provider('b', hello);
  const { router, outcomes } = make(ALL, a, b);
  const { tokens } = await Collector.of(router.tokenize({ text: 'ab', route: 'provider:b' }, context()));
  assert.equal(tokens.tokens, [97, 98]);
  assert.equal((await Collector.of(router.detokenize({ tokens: [99] }, context()))).text, 'c');
  a.tokenize = () => {
    throw new SvcError('PROVIDER_FAILED', 'a has failed');
  };
  const failed = failure(router.tokenize({ messages: [], sampling: {}, stop: [] }, context()));
  assert.is((await failed).code, 'PROVIDER_FAILED');
  assert.equal([a.tokenizeRequests.length, b.tokenizeRequests.length], [0, 1]);
  assert.equal(
    outcomes.map(({ kind, outcome }) => [kind, outcome]),
    [
      ['tokenizing', 'ok'],
      ['tokenizing', 'ok'],
      ['tokenizing', 'PROVIDER_FAILED'],
    ],
  );
  assert.is(router.active + router.waiting, 0);
});

test.run();
