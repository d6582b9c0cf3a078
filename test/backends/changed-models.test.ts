/** Models whose files change while an engine has the old ones, with fake engines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import type { LoadWishes } from '../../src/protocol/routes.ts';
import { firstText } from '../support/first-text.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, isAlive, testWith } from './local-support.ts';

function it(what: string, body: (local: FakeLocal) => Promise<void>): void {
  testWith(what, () => makeFakeLocal({ model: {}, other: {}, newer: {}, newest: {} }), body);
}

/** Resolves with the pid of the engine. */
async function load(backend: LocalBackend, model: string, wishes: LoadWishes = {}): Promise<number> {
  let pid = 0;
  for await (const event of backend.load(model, new AbortController().signal, wishes))
    if (event.type === 'loaded') ({ pid } = event);
  return pid;
}

const answer = async (backend: LocalBackend, model: string): Promise<unknown> =>
  await collect(backend.generate(ask('say 1', model), context()));

/** Starts an answer that runs until the test stops it. */
async function endless(backend: LocalBackend, model: string) {
  const events = backend.generate(ask('endless', model), context())[Symbol.asyncIterator]();
  await firstText(events);
  return events;
}

/** Resolves with the pid of the only engine, once there is only one, and it is loaded. */
const onlyEngine = async (backend: LocalBackend): Promise<number> =>
  await waitFor('a single engine', () => {
    const [first, ...others] = backend.loadedModels();
    return others.length === 0 && first?.state === 'loaded' && backend.pids().length === 1 && backend.pids()[0];
  });

it('a request that finds other files replaces the engine that had the old ones', async ({ backend, replace }) => {
  const before = await load(backend, 'model', { pin: true });
  replace('model', 'newer');
  await answer(backend, 'model');
  const now = await onlyEngine(backend);
  assert.not(isAlive(before));
  await waitFor('the new engine to stay as the old one did', () => {
    const [first] = backend.loads();
    return first?.pin === true && first.keep_alive_seconds === -1;
  });
  assert.is(await onlyEngine(backend), now);
});

it('an engine with old files finishes its answer', async ({ backend, replace, log }) => {
  await load(backend, 'model');
  const running = await endless(backend, 'model');
  replace('model', 'newer');
  for (let n = 0; n < 3; n += 1) await answer(backend, 'model');
  assert.is((await running.next()).value?.type, 'text');
  assert.is(backend.pids().length, 2);
  await running.return(undefined);
  await onlyEngine(backend);
  assert.is(log.filter(({ message }) => message.includes('have changed')).length, 1);
});

it('an unload ends the engines of all files that the model had', async ({ backend, replace }) => {
  await load(backend, 'model');
  replace('model', 'newer');
  await backend.unload('model');
  assert.equal(backend.pids(), [], 'of the old file');

  await load(backend, 'model');
  const running = await endless(backend, 'model');
  replace('model', 'newest');
  await answer(backend, 'model');
  assert.is((await failure(backend.unload('model'))).message, 'model is in use by 1 request');
  assert.is(backend.pids().length, 2, 'all or none');
  await running.return(undefined);
  await onlyEngine(backend);
  await backend.unload('model');
  assert.equal(backend.pids(), []);
});

it('a model that is unloaded while its engine is being replaced is not loaded again', async ({ backend, replace }) => {
  await load(backend, 'model');
  const running = await endless(backend, 'model');
  replace('model', 'newer');
  await backend.modelsChanged();
  await backend.unload('model', true);
  await running.return(undefined);
  await waitFor('the engine to end', () => backend.pids().length === 0);
  await answer(backend, 'other');
  assert.equal(
    backend.loadedModels().map(({ id }) => id),
    ['other'],
  );
});

it('a model that has left a shared engine does not unload it', async ({ backend, replace }) => {
  replace('other', 'model');
  const shared = await load(backend, 'model');
  assert.is(await load(backend, 'other'), shared);
  replace('other', 'newer');
  const own = await load(backend, 'other');
  assert.is.not(own, shared);
  await backend.modelsChanged();
  await backend.unload('other');
  assert.equal(backend.pids(), [shared]);
});

test.run();
