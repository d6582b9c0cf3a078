/** Budgets of providers: which requests are taken from them, and which of them the circuit breaker counts. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { Router } from '../../src/routing/router.ts';
import { Budgets } from '../../src/usage/budgets.ts';
import { readUsage } from '../../src/usage/ledger.ts';
import { hello, type Script, type ScriptedBackend } from '../http/scripted.ts';
import { waitFor } from '../support/wait.ts';
import { ALL, collect, context, failure, fails, provider, REQUEST, TO_A } from './support.ts';

const broken = (): SvcError => new SvcError('PROVIDER_FAILED', 'broken', { retryable: false });

test('a provider that does not admit the request is not asked, and a fallback may answer', async () => {
  const a = provider('a', hello);
  const b = provider('b', hello);
  const router = new Router(new Map([a, b].map((one) => [one.name, one])), {
    policies: () => ALL,
    admit: async (name) => {
      if (name === 'a') throw new SvcError('BUSY', 'the day is used up', { retryAfterSeconds: 3600 });
    },
  });
  const [first] = await collect(router.route(REQUEST, context()));
  assert.is(first?.type === 'route' && first.route.chosen, 'b');
  assert.is(a.requests.length, 0);
});

/** A router to provider `a` with a budget. */
async function withBudget(
  requestsPerDay: number,
  script: Script,
  body: (world: { a: ScriptedBackend; router: Router; asked(): Promise<number> }) => Promise<void>,
): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-budget-'));
  const budgets = new Budgets({
    dir,
    budgetOf: () => ({ requestsPerDay, tokensPerDay: null }),
    onFailure: () => undefined,
    now: () => Date.UTC(2026, 5, 1, 12),
  });
  const a = provider('a', script);
  const router = new Router(new Map([['a', a]]), { admit: (name) => budgets.admit(name) });
  const asked = async (): Promise<number> => {
    let count = 0;
    for await (const { event } of readUsage(dir, '2026-06-01')) if (event === 'asked') count += 1;
    return count;
  };
  try {
    await body({ a, router, asked });
  } finally {
    await budgets.close();
    await rm(dir, { recursive: true, force: true });
  }
}

test('requests that an open circuit refuses are not taken from the budget', async () => {
  let works = false;
  const script: Script = async function* () {
    await setImmediate();
    if (!works) throw broken();
    yield* hello();
  };
  await withBudget(8, script, async ({ a, router, asked }) => {
    for (let n = 0; n < 5; n += 1) await failure(router.route(TO_A, context()));
    for (let n = 0; n < 10; n += 1) {
      assert.match((await failure(router.route(TO_A, context()))).message, /circuit open/);
    }
    assert.equal([a.requests.length, await asked()], [5, 5]);

    const failures = async (): Promise<SvcError[]> =>
      await Promise.all([1, 2, 3].map(() => failure(router.route(TO_A, context()))));
    await waitFor('a request that tries the provider', async () => {
      const codes = (await failures()).map(({ code }) => code);
      return codes.includes('PROVIDER_FAILED');
    });
    assert.equal([a.requests.length, await asked()], [6, 6], 'those that waited for it were not sent');

    works = true;
    await waitFor('the provider to be taken back', async () => {
      const [event] = await collect(router.route(TO_A, context())).catch(() => []);
      return event?.type === 'route';
    });
    assert.equal([a.requests.length, await asked()], [7, 7]);
  });
});

test('a budget that is used up is neither a failure of the provider nor a proof that it works', async () => {
  const script = fails(broken);
  await withBudget(4, script, async ({ a, router }) => {
    const states = (): unknown[] =>
      router.providerHealth().map(({ state, consecutive_failures }) => [state, consecutive_failures]);
    for (let n = 0; n < 4; n += 1) await failure(router.route(TO_A, context()));
    for (let n = 0; n < 10; n += 1) assert.is((await failure(router.route(TO_A, context()))).code, 'BUSY');
    assert.equal([a.requests.length, states()], [4, [['unhealthy', 4]]]);
  });
  await withBudget(5, script, async ({ a, router }) => {
    for (let n = 0; n < 5; n += 1) await failure(router.route(TO_A, context()));
    await waitFor('the budget to refuse the request that would try the provider', async () => {
      return (await failure(router.route(TO_A, context()))).code === 'BUSY';
    });
    assert.match((await failure(router.route(TO_A, context()))).message, /circuit open/);
    assert.is(a.requests.length, 5);
  });
});

test('a request that was aborted while it waited for a circuit is not taken from the budget', async () => {
  let tries = 0;
  let answers = (): void => undefined;
  const gate = new Promise<void>((resolve) => (answers = resolve));
  const script: Script = async function* () {
    tries += 1;
    if (tries <= 5) throw broken();
    await gate;
    yield* hello();
  };
  await withBudget(20, script, async ({ a, router, asked }) => {
    for (let n = 0; n < 5; n += 1) await failure(router.route(TO_A, context()));
    const trial = waitFor('the provider to be taken back', async () => {
      return (await collect(router.route(TO_A, context())).catch(() => [])).length > 0;
    });
    await waitFor('the request that tries it', () => tries === 6);
    const client = new AbortController();
    const gone = new SvcError('CANCELLED', 'left');
    const waiting = failure(router.route(TO_A, context(client.signal)));
    await setImmediate();
    client.abort(gone);
    answers();
    const [, error] = await Promise.all([trial, waiting]);
    assert.is(error, gone);
    assert.equal([a.requests.length, await asked()], [6, 6]);
  });
});

test.run();
