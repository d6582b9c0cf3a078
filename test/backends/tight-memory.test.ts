/** Loads on a machine whose free memory shrinks during the dry run, with fake engines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
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

test.run();
