/** Loads that find less memory than they were planned with, or wait for it, with fake engines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, testWith, textOf } from './local-support.ts';
import type { Behaviour } from './fake-engine.ts';

const MB = 1e6;

function it(
  what: string,
  large: Behaviour,
  memory: Parameters<typeof makeFakeLocal>[3],
  body: (local: FakeLocal) => Promise<void>,
): void {
  testWith(what, () => makeFakeLocal({ large }, {}, null, memory), body);
}

const answer = (backend: LocalBackend): Promise<GenerateEvent[]> =>
  collect(backend.generate(ask('say 1', 'large'), context()));

const isLoaded = (backend: LocalBackend): boolean => backend.loadedModels().some(({ state }) => state === 'loaded');

/** Free memory of a machine of 100 MB: `first` bytes when it is first asked for, then `later`. */
function shrinking(first: number, later: number): { hostMemory: () => { totalBytes: number; availableBytes: number } } {
  let calls = 0;
  return { hostMemory: () => ({ totalBytes: 100 * MB, availableBytes: calls++ === 0 ? first : later }) };
}

it(
  'a load whose memory was taken meanwhile gets a shorter context',
  { weights: 30 * MB, context: 8192, cachePerToken: 6000 },
  shrinking(60 * MB, 50 * MB),
  async ({ backend }) => {
    const asked = answer(backend);
    await waitFor('the load', () => isLoaded(backend));
    assert.is(textOf(await asked), 'word ');
    const { context_length } = (await backend.models())[0]?.loaded ?? {};
    // 15 MB for cells of 3 kB (Q8_0), rounded down to a multiple of 256.
    assert.is(context_length, 4864);
  },
);

it(
  'a load that no longer fits anywhere is refused',
  { weights: 46 * MB },
  shrinking(60 * MB, 50 * MB),
  async ({ backend }) => {
    const refused = failure(answer(backend)).then(({ code }) => (code === 'OUT_OF_MEMORY' ? code : 'other'));
    let code = '';
    void refused.then((each) => (code = each));
    await waitFor('the refusal', () => code === 'OUT_OF_MEMORY');
  },
);

it(
  'what the engine process itself has taken before the load is not missing',
  { weights: 46 * MB, holds: 10 * MB },
  shrinking(60 * MB, 50 * MB),
  async ({ backend }) => {
    const asked = answer(backend);
    await waitFor('the load', () => isLoaded(backend));
    assert.is(textOf(await asked), 'word ');
  },
);

testWith(
  'a model that is asked for again while its process ends lets another one load first',
  () =>
    makeFakeLocal({ large: { weights: 60 * MB, load: 'rest' }, other: { weights: 50 * MB } }, {}, null, {
      memory_budget_bytes: 100 * MB,
    }),
  async ({ backend, starts, behave }) => {
    const leaving = new AbortController();
    const left = failure(collect(backend.generate(ask('say 1', 'large'), context(leaving.signal))));
    await waitFor('the load', async () => (await starts('large')).length === 1);
    const [pid = 0] = backend.pids();
    // A stopped process does not end until it is continued or killed.
    process.kill(pid, 'SIGSTOP');
    const answered: string[] = [];
    const asking = (model: string): void => {
      void collect(backend.generate(ask('say 1', model), context())).then(() => answered.push(model));
    };
    asking('other');
    await waitFor('the other process', () => backend.pids().length === 2);
    await behave('large', { weights: 60 * MB });
    leaving.abort(new SvcError('CANCELLED', 'the client has left'));
    asking('large');
    assert.is((await left).code, 'CANCELLED');
    process.kill(pid, 'SIGCONT');
    await waitFor('both answers', () => answered.length === 2);
    assert.equal(answered, ['other', 'large']);
  },
);

test.run();
