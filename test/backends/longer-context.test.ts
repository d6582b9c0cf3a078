/** Requests for a longer context than the engine was loaded with, which may not fit, with fake engines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest } from '../../src/protocol/generate.ts';
import { firstText } from '../support/first-text.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, testWith, textOf } from './local-support.ts';

const MB = 1e6;
/** 48 MB with the default context of 4096 tokens; of the memory that is left, TOO_LONG needs twice as much. */
const MODELS = { a: { weights: 40 * MB, cachePerToken: 2000, context: 4096 } };
const BUDGET = { memory_budget_bytes: 100 * MB };
const TOO_LONG = 120_000;

/** Tests with one model, which is the default if `isKept`. */
function it(what: string, isKept: boolean, body: (local: FakeLocal) => Promise<void>): void {
  testWith(what, () => makeFakeLocal(MODELS, {}, isKept ? 'a' : null, BUDGET), body);
}

const answer = (
  backend: LocalBackend,
  wishes: Partial<GenerateRequest> = {},
  signal?: AbortSignal,
): Promise<GenerateEvent[]> => collect(backend.generate({ ...ask('say 1', 'a'), ...wishes }, context(signal)));

const contextNow = (backend: LocalBackend): number | null | undefined =>
  backend.loadedModels().find(({ state }) => state === 'loaded')?.context_length;

/** Starts an answer that runs until the test stops it: a reload waits for it. */
async function endless(backend: LocalBackend) {
  const events = backend.generate(ask('endless', 'a'), context())[Symbol.asyncIterator]();
  await firstText(events);
  return events;
}

/** Resolves when the engine has so many requests. */
const used = (backend: LocalBackend, count: number): Promise<unknown> =>
  waitFor(`${String(count)} requests`, () => {
    const [model] = backend.loadedModels();
    return model !== undefined && model.active + model.waiting === count;
  });

for (const isKept of [true, false]) {
  it(
    `a context that does not fit is refused only to those who ask for it${isKept ? ', also of a kept engine' : ''}`,
    isKept,
    async ({ backend }) => {
      const running = await endless(backend);
      const refused = [TOO_LONG, TOO_LONG + 1000].map((context_length) => failure(answer(backend, { context_length })));
      await used(backend, 3);
      const others = [answer(backend), answer(backend, { context_length: 6000 })];
      await used(backend, 5);
      await running.return(undefined);
      for (const error of await Promise.all(refused)) {
        assert.is(error.code, 'OUT_OF_MEMORY');
        assert.match(error.message, /a context of 12[01]000 tokens needs/);
      }
      for (const events of await Promise.all(others)) assert.is(textOf(events), 'word ');
      assert.is(contextNow(backend), 6000);
    },
  );
}

it('a kept engine comes back by itself after a context that did not fit', true, async ({ backend }) => {
  await answer(backend);
  assert.is((await failure(answer(backend, { context_length: TOO_LONG }))).code, 'OUT_OF_MEMORY');
  await waitFor('the engine to come back', () => contextNow(backend) === 4096);
  assert.is(backend.engineStatus().status, 'ok');
});

it('a kept engine comes back if the request that reloads it is cancelled', true, async ({ backend, starts }) => {
  await answer(backend);
  const [pid = 0] = backend.pids();
  // A stopped process does not end until it is continued or killed.
  process.kill(pid, 'SIGSTOP');
  const leaving = new AbortController();
  const left = failure(answer(backend, { context_length: 6000 }, leaving.signal));
  await waitFor('the old process to be ended', () => contextNow(backend) === undefined);
  leaving.abort(new SvcError('CANCELLED', 'the client has left'));
  process.kill(pid, 'SIGCONT');
  assert.is((await left).code, 'CANCELLED');
  await waitFor('the engine to come back', () => contextNow(backend) !== undefined);
  assert.is((await starts('a')).length, 2);
});

it('a context whose requests were cancelled does not count for a later load', false, async ({ backend, log }) => {
  const running = await endless(backend);
  const leaving = new AbortController();
  const left = [6000, TOO_LONG].map((context_length) => failure(answer(backend, { context_length }, leaving.signal)));
  await used(backend, 3);
  leaving.abort(new SvcError('CANCELLED', 'the client has left'));
  for (const { code } of await Promise.all(left)) assert.is(code, 'CANCELLED');
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  assert.is((await failure(collect({ [Symbol.asyncIterator]: () => running }))).code, 'ENGINE_CRASHED');
  assert.is(textOf(await answer(backend)), 'word ');
  assert.is(contextNow(backend), 4096);
  assert.not(log.some(({ fields }) => fields['code'] === 'OUT_OF_MEMORY'));
});

it('a longer context is loaded also when the first that asked for it has left', false, async ({ backend }) => {
  const running = await endless(backend);
  const leaving = new AbortController();
  // At once, so that the second finds the engine loaded, too.
  const left = failure(answer(backend, { context_length: 6000 }, leaving.signal));
  const stays = answer(backend, { context_length: 6000 });
  await used(backend, 3);
  leaving.abort(new SvcError('CANCELLED', 'the client has left'));
  assert.is((await left).code, 'CANCELLED');
  await running.return(undefined);
  assert.is(textOf(await stays), 'word ');
  assert.is(contextNow(backend), 6000);
});

it('a granted context survives a crash, and gives way when it does not fit any more', true, async (local) => {
  const { backend, behave, starts } = local;
  await answer(backend, { context_length: 20_000 });
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  const isBack = async (): Promise<boolean> => (await starts('a')).length === 2 && contextNow(backend) === 20_000;
  await waitFor('the engine to come back', isBack);
  await behave('a', { ...MODELS.a, weights: 85 * MB });
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  await waitFor('a shorter context', () => contextNow(backend) === 4096);
});

test.run();
