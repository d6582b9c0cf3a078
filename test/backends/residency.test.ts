/** Which models stay in memory, with fake engines that report their memory. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import type { GenerateEvent, GenerateRequest } from '../../src/protocol/generate.ts';
import { firstText } from '../support/first-text.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, isAlive, testWith, textOf } from './local-support.ts';
import type { Behaviour } from './fake-engine.ts';

const MB = 1e6;
/** A model of 40 MB; two of them fit into BUDGET. */
const MODEL: Behaviour = { weights: 40 * MB, holds: 40 * MB };
const BUDGET = { memory_budget_bytes: 100 * MB };

function it(
  what: string,
  models: Readonly<Record<string, Behaviour>>,
  memory: Parameters<typeof makeFakeLocal>[3],
  body: (local: FakeLocal) => Promise<void>,
): void {
  testWith(what, () => makeFakeLocal(models, {}, null, memory), body);
}

const answer = (
  backend: LocalBackend,
  model: string,
  wishes: Partial<GenerateRequest> = {},
  prompt = 'say 1',
): Promise<GenerateEvent[]> => collect(backend.generate({ ...ask(prompt, model), ...wishes }, context()));

const loaded = (backend: LocalBackend): string[] =>
  backend
    .loadedModels()
    .filter(({ state }) => state === 'loaded')
    .map(({ id }) => id)
    .sort();

/** Starts an answer that runs until the test stops it. */
async function endless(backend: LocalBackend, model: string) {
  const events = backend.generate(ask('endless', model), context())[Symbol.asyncIterator]();
  await firstText(events);
  return events;
}

async function load(backend: LocalBackend, model: string, wishes: Parameters<LocalBackend['load']>[2] = {}) {
  const events = [];
  for await (const event of backend.load(model, new AbortController().signal, wishes)) events.push(event);
  return events.at(-1);
}

it(
  'loading a third model evicts the one that is cheapest to reload',
  { dear: { ...MODEL, loadMs: 4000 }, cheap: MODEL, new: MODEL },
  BUDGET,
  async ({ backend }) => {
    await answer(backend, 'dear');
    await answer(backend, 'cheap');
    const [, cheap] = backend.pids();
    assert.is(textOf(await answer(backend, 'new')), 'word ');
    assert.equal(loaded(backend), ['dear', 'new']);
    assert.not(isAlive(cheap as number));
    const models = await backend.models();
    assert.is(models.find(({ id }) => id === 'new')?.loaded?.memory_bytes, 40 * MB);
  },
);

it(
  'measured memory of an engine counts, not the planned memory',
  { a: { ...MODEL, holds: 80 * MB }, b: MODEL },
  BUDGET,
  async ({ backend }) => {
    await answer(backend, 'a');
    await waitFor('the measurement', async () => (await backend.models())[0]?.loaded?.memory_bytes === 80 * MB);
    await answer(backend, 'b');
    assert.equal(loaded(backend), ['b']);
  },
);

it(
  'a load that needs memory waits until running generations have ended',
  { a: MODEL, b: MODEL, c: MODEL },
  BUDGET,
  async ({ backend, starts }) => {
    const [one, two] = [await endless(backend, 'a'), await endless(backend, 'b')];
    let done = false;
    const third = answer(backend, 'c').finally(() => (done = true));
    for (let pulls = 0; pulls < 50; pulls++) {
      assert.is((await one.next()).value?.type, 'text');
      assert.is((await two.next()).value?.type, 'text');
    }
    assert.not(done);
    assert.equal(await starts('c'), []);
    await one.return(undefined);
    await two.return(undefined);
    assert.is(textOf(await third), 'word ');
    assert.is(loaded(backend).length, 2);
  },
);

it(
  'a request for a model that is being evicted waits its turn and reloads the model',
  { a: MODEL, b: { weights: 90 * MB } },
  BUDGET,
  async ({ backend, starts, log }) => {
    const running = await endless(backend, 'a');
    const second = answer(backend, 'b', {}, 'say 3');
    await waitFor('a to make way', () => log.some(({ message }) => message.includes('evicted')));
    const again = answer(backend, 'a');
    await running.return(undefined);
    assert.is(textOf(await second), 'word word word ');
    assert.is(textOf(await again), 'word ');
    await waitFor('a second process of a', async () => (await starts('a')).length === 2);
    assert.equal(loaded(backend), ['a']);
  },
);

it(
  'a load whose requests were all cancelled is abandoned and evicts no model',
  { a: { weights: 90 * MB }, b: MODEL },
  BUDGET,
  async ({ backend, starts, log }) => {
    const running = await endless(backend, 'a');
    const controller = new AbortController();
    const left = collect(backend.generate(ask('say 1', 'b'), { ...context(), signal: controller.signal }));
    await waitFor('b to wait for room', () => log.some(({ message }) => message.includes('evicted')));
    controller.abort(new Error('the caller has left'));
    await left.catch(() => undefined);
    await waitFor('the process of b to be gone', () => backend.pids().length === 1);
    assert.is(textOf(await answer(backend, 'a')), 'word ');
    await running.return(undefined);
    assert.is((await starts('a')).length, 1);
    assert.equal(await starts('b'), []);
  },
);

it(
  'a model that cannot fit is refused and evicts no model',
  { a: MODEL, large: { weights: 120 * MB, context: 8192, cachePerToken: 100 } },
  BUDGET,
  async ({ backend, starts, log }) => {
    await answer(backend, 'a');
    for (let again = 0; again < 2; again++) {
      const error = await failure(answer(backend, 'large'));
      assert.is(error.code, 'OUT_OF_MEMORY');
      assert.match(
        error.message,
        /a context of 8192 tokens needs 121 MB of models.memory_budget_bytes, and 100 MB are free/,
      );
      assert.match(error.hint ?? '', /not even a context of 2048 tokens fits/);
    }
    assert.equal(loaded(backend), ['a']);
    assert.equal(await starts('large'), []);
    assert.not(log.some(({ message }) => message.includes('evicted')));
  },
);

it(
  'the context length is what fits; a larger explicit one is refused with what would fit',
  { large: { weights: 40 * MB, context: 8192, cachePerToken: 20_000 } },
  BUDGET,
  async ({ backend }) => {
    const events = await load(backend, 'large');
    // Q8_0: 10 kB for each token.
    assert.ok(events?.type === 'loaded');
    assert.is(events.context_length, 5888);
    const error = await failure(answer(backend, 'large', { context_length: 8192 }));
    assert.is(error.code, 'OUT_OF_MEMORY');
    assert.is(error.hint, 'a context of 5888 tokens fits: ask for at most 5888 tokens');
    assert.is(textOf(await answer(backend, 'large')), 'word ');
  },
);

testWith(
  'a configured context that does not fit is refused with the setting that decides for the model',
  () => makeFakeLocal({ large: { weights: 40 * MB, cachePerToken: 20_000 } }, { context_length: 8192 }, null, BUDGET),
  async ({ backend }) => {
    const { hint } = await failure(answer(backend, 'large'));
    assert.is(hint, 'a context of 5888 tokens fits: svc config set models.large.context_length 5888');
  },
);

it(
  'the free memory of the machine is the limit, minus a reserve',
  { a: MODEL, large: { weights: 46 * MB } },
  { hostMemory: () => ({ totalBytes: 100 * MB, availableBytes: 50 * MB }) },
  async ({ backend }) => {
    await answer(backend, 'a', { keep_alive_seconds: 0 });
    await waitFor('it to go', () => backend.pids().length === 0);
    const error = await failure(answer(backend, 'large'));
    assert.is(
      error.message,
      'not enough memory for large: a context of 1000 tokens needs 46 MB of RAM, and 45 MB are free',
    );
  },
);

it(
  'a pinned model stays, and a load that needs its memory is refused',
  { a: MODEL, b: MODEL, c: MODEL, d: { weights: 70 * MB } },
  BUDGET,
  async ({ backend }) => {
    await load(backend, 'a', { pin: true });
    await answer(backend, 'b');
    await answer(backend, 'c');
    assert.equal(loaded(backend), ['a', 'c']);
    assert.is((await failure(answer(backend, 'd'))).code, 'OUT_OF_MEMORY');
    assert.equal(loaded(backend), ['a', 'c']);
    await backend.unload('a');
    await answer(backend, 'd');
    assert.equal(loaded(backend), ['d']);
  },
);

it(
  'a model is unloaded some time after its last use',
  { a: {}, b: {} },
  { keep_alive_seconds: 1 },
  async ({ backend }) => {
    const expiry = async (): Promise<string | null | undefined> => (await backend.models())[0]?.loaded?.expires_at;
    const from = Date.now();
    await answer(backend, 'a');
    const at = Date.parse((await expiry()) ?? '');
    assert.ok(at >= from + 1000 && at <= Date.now() + 1000, `${String(at - from)} ms`);
    await waitFor('it to go', () => backend.pids().length === 0);

    await answer(backend, 'a', { keep_alive_seconds: 0 });
    await waitFor('it to go at once', () => backend.pids().length === 0);
    await answer(backend, 'a', { keep_alive_seconds: -1 });
    assert.is(await expiry(), null);
    await answer(backend, 'b');
    await waitFor('the other to go', () => backend.pids().length === 1);
    assert.equal(loaded(backend), ['a']);

    await load(backend, 'b', { keep_alive_seconds: 3600 });
    const later = (await backend.models())[1]?.loaded?.expires_at ?? '';
    assert.ok(Date.parse(later) - Date.now() > 3_500_000);
  },
);

it('the keep-alive of a load outlasts a crash', { a: {} }, {}, async ({ backend, starts }) => {
  await load(backend, 'a', { keep_alive_seconds: 3600 });
  const running = await endless(backend, 'a');
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  assert.is((await failure(collect({ [Symbol.asyncIterator]: () => running }))).code, 'ENGINE_CRASHED');
  await waitFor('the restart', async () => (await starts('a')).length === 2 && loaded(backend).length === 1);
  const at = (await backend.models())[0]?.loaded?.expires_at ?? '';
  assert.ok(Date.parse(at) - Date.now() > 3_500_000, at);
});

it('a model in use does not expire', { a: {} }, { keep_alive_seconds: 0 }, async ({ backend, starts }) => {
  const running = await endless(backend, 'a');
  await answer(backend, 'a');
  for (let pulls = 0; pulls < 100; pulls++) assert.is((await running.next()).value?.type, 'text');
  assert.is((await starts('a')).length, 1);
  await running.return(undefined);
  await waitFor('it to go', () => backend.pids().length === 0);
});

it(
  'a context grows once for all concurrent larger requests, and never shrinks',
  { a: { context: 4096 } },
  {},
  async ({ backend, starts }) => {
    const length = (): number | null | undefined => backend.loadedModels()[0]?.context_length;
    await answer(backend, 'a');
    assert.is(length(), 4096);
    await Promise.all([1, 2, 3, 4].map(() => answer(backend, 'a', { context_length: 6000 })));
    assert.is(length(), 6000);
    assert.is((await starts('a')).length, 2);
    for (const context_length of [1, 2048, 6000]) await answer(backend, 'a', { context_length });
    await answer(backend, 'a');
    assert.is((await starts('a')).length, 2);

    // Running generations end first.
    const running = await endless(backend, 'a');
    const larger = answer(backend, 'a', { context_length: 7000 });
    for (let pulls = 0; pulls < 30; pulls++) assert.is((await running.next()).value?.type, 'text');
    await running.return(undefined);
    await larger;
    assert.is(length(), 7000);
  },
);

/** A model of 20 MB and 1 kB for each token: 28 MB with its first 8,192 cells, 85 MB with 65,536. */
const GROWS: Behaviour = { weights: 20 * MB, cachePerToken: 1000, context: 8192, trained: 65_536 };
const grownTo = (log: FakeLocal['log']): unknown[] =>
  log.filter(({ message }) => message === 'the KV cache grows').map(({ fields }) => fields['cells']);

it(
  'the context is what would fit, and only the used part of it counts',
  { a: GROWS, b: MODEL },
  BUDGET,
  async ({ backend, log }) => {
    await answer(backend, 'b');
    const events = await load(backend, 'a');
    assert.ok(events?.type === 'loaded');
    assert.is(events.context_length, 65_536);
    // 40 MB and 28 MB.
    assert.equal(loaded(backend), ['a', 'b']);
    // 20 MB and 16 MB more fit beside the other model, 20 MB and 65 MB do not.
    assert.is(textOf(await answer(backend, 'a', {}, 'grow 10000')), 'word ');
    assert.equal(loaded(backend), ['a', 'b']);
    assert.is(textOf(await answer(backend, 'a', {}, 'grow 60000')), 'word ');
    assert.equal(loaded(backend), ['a']);
    assert.equal(grownTo(log), [16_384, 65_536]);
  },
);

it(
  'a KV cache that cannot grow beside a busy model is refused at once, and nothing is evicted',
  { a: GROWS, b: MODEL },
  { memory_budget_bytes: 120 * MB },
  async ({ backend, log }) => {
    const busy = await endless(backend, 'b');
    await answer(backend, 'a');
    const error = await failure(answer(backend, 'a', {}, 'grow 60000'));
    assert.is(error.code, 'OUT_OF_MEMORY');
    assert.match(
      error.message,
      /a context of 65536 tokens needs 86 MB of models.memory_budget_bytes, and 80 MB are free/,
    );
    assert.match(error.hint ?? '', /svc model unload NAME/);
    assert.not(log.some(({ message }) => message.includes('evicted')));
    // A smaller one still fits, and others are not affected.
    assert.is(textOf(await answer(backend, 'a', {}, 'grow 9000')), 'word ');
    assert.is((await busy.next()).value?.type, 'text');
    await busy.return(undefined);
  },
);

it(
  'a model that is to be evicted may grow, so that the load that waits for it goes on',
  { a: GROWS, b: { weights: 90 * MB } },
  BUDGET,
  async ({ backend, log }) => {
    const first = answer(backend, 'a', {}, 'late grow 60000');
    await waitFor('a to be loaded', () => loaded(backend).includes('a'));
    const second = answer(backend, 'b');
    await waitFor('b to wait for room', () => log.some(({ message }) => message.includes('evicted')));
    assert.is(textOf(await first), 'word ');
    assert.equal(grownTo(log), [65_536]);
    assert.is(textOf(await second), 'word ');
    assert.equal(loaded(backend), ['b']);
  },
);

it(
  'several that grow at once, and a crash, which begins anew with few cells',
  { a: GROWS, b: GROWS },
  { memory_budget_bytes: 130 * MB },
  async ({ backend, log }) => {
    const sizes = [9000, 20_000, 40_000, 12_000];
    const answers = sizes.map((cells) => answer(backend, 'a', {}, `grow ${String(cells)}`));
    for (const each of answers) assert.is(textOf(await each), 'word ');
    assert.equal(grownTo(log), [16_384, 32_768, 65_536, 65_536]);
    process.kill(backend.pids()[0] as number, 'SIGKILL');
    await waitFor('the crash', () => backend.loadedModels()[0]?.state !== 'loaded');
    assert.is(textOf(await answer(backend, 'a')), 'word ');
    assert.is(textOf(await answer(backend, 'b', {}, 'grow 60000')), 'word ');
    assert.equal(loaded(backend), ['a', 'b']);
  },
);

it(
  'a dry run that crashes or fails affects only its own model',
  { a: {}, bad: {} },
  {},
  async ({ backend, behave }) => {
    await answer(backend, 'a');
    await behave('bad', { estimate: 'invalid' });
    assert.is((await failure(answer(backend, 'bad'))).code, 'MODEL_INVALID');
    await behave('bad', { estimate: 'crash' });
    assert.is((await failure(load(backend, 'bad'))).code, 'ENGINE_CRASHED');
    assert.is(textOf(await answer(backend, 'a')), 'word ');
  },
);

it(
  'random requests for three models with memory for two: all are answered, the budget holds',
  { a: MODEL, b: MODEL, c: MODEL },
  BUDGET,
  async ({ backend }) => {
    const random = randomFrom(7);
    let most = 0;
    let left = 0;
    const watch = setInterval(() => (most = Math.max(most, loaded(backend).length)), 1);
    const one = async (): Promise<void> => {
      const model = 'abc'.charAt(Math.floor(random() * 3));
      if (random() < 0.2) {
        const events = await endless(backend, model);
        await events.return(undefined);
        left++;
      } else {
        const words = 1 + Math.floor(random() * 20);
        assert.is(textOf(await answer(backend, model, {}, `say ${String(words)}`)), 'word '.repeat(words));
      }
    };
    const client = async (): Promise<void> => {
      for (let count = 0; count < 8; count++) await one();
    };
    await Promise.all(Array.from({ length: 5 }, client));
    clearInterval(watch);
    assert.ok(most === 2 && left > 0, `${String(most)} were loaded at a time`);
    const pids = backend.pids();
    for (const model of ['a', 'b', 'c']) await backend.unload(model);
    assert.equal(pids.filter(isAlive), []);
    assert.equal(backend.pids(), []);
  },
);

/** Seeded random generator (Mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test.run();
