/** Retries, fallback, circuit breaker and deadlines, with scripted backends. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { setImmediate } from 'node:timers/promises';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, RouteEvent } from '../../src/protocol/generate.ts';
import type { Policies } from '../../src/routing/policy.ts';
import { waitFor } from '../support/wait.ts';
import { aborted, FINISH, hello, ScriptedBackend, START, text, type Script } from '../http/scripted.ts';
import { ALL, collect, context, failure, fails, make, provider, REQUEST, TO_A } from './support.ts';

const broken = (): SvcError => new SvcError('PROVIDER_FAILED', 'broken');

function routeOf(events: readonly (RouteEvent | GenerateEvent)[]): RouteEvent['route'] {
  const [first] = events;
  assert.ok(first?.type === 'route');
  return first.route;
}

test('a retryable error before the first text is retried', async () => {
  let tries = 0;
  const a = provider('a', async function* () {
    tries += 1;
    yield START;
    if (tries < 3) throw broken();
    yield text('at last');
    yield FINISH;
  });
  const { router, outcomes } = make({}, a);
  const route = routeOf(await collect(router.route(TO_A, context())));
  assert.equal(
    route.attempts.map(({ outcome, reason }) => [outcome, reason]),
    [
      ['failed', 'broken'],
      ['failed', 'broken'],
      ['ok', null],
    ],
  );
  assert.equal(
    outcomes[0]?.attempts.map(({ code }) => code),
    ['PROVIDER_FAILED', 'PROVIDER_FAILED', 'ok'],
  );
  assert.equal([router.waiting, router.active], [0, 0]);
});

test('after the first text nothing is retried', async () => {
  const a = provider('a', async function* () {
    yield START;
    yield text('half');
    throw broken();
  });
  const b = provider('b', hello);
  const { router } = make(ALL, a, b);
  const seen: string[] = [];
  const error = await failure(
    (async function* () {
      for await (const event of router.route(REQUEST, context())) yield seen.push(event.type);
    })(),
  );
  assert.is(error.message, 'broken');
  assert.equal(seen, ['route', 'start', 'text']);
  assert.equal([a.requests.length, b.requests.length], [1, 0]);
});

test('the retry advice of the provider is followed', async () => {
  for (const error of [
    new SvcError('PROVIDER_AUTH', 'wrong key'),
    new SvcError('INVALID_REQUEST', 'no'),
    new SvcError('PROVIDER_FAILED', 'no quota', { retryable: false }),
    new SvcError('BUSY', 'in an hour', { retryAfterSeconds: 3600 }),
  ]) {
    const a = provider(
      'a',
      fails(() => error),
    );
    const { router } = make({}, a);
    assert.is(await failure(router.route(TO_A, context())), error);
    assert.is(a.requests.length, 1, error.message);
  }
  let tries = 0;
  const soon = provider('a', async function* () {
    if ((tries += 1) === 1) throw new SvcError('BUSY', 'soon', { retryAfterSeconds: 0.05 });
    yield* hello();
  });
  await collect(make({}, soon).router.route(TO_A, context()));
  assert.is(soon.requests.length, 2);
});

test('the local backend is never retried by the router, because it retries by itself', async () => {
  const local = new ScriptedBackend(fails(broken));
  await failure(make({}, local).router.route(REQUEST, context()));
  assert.is(local.requests.length, 1);
});

test('retries share a budget over all requests', async () => {
  const a = provider(
    'a',
    fails(() => new SvcError('BUSY', 'full', { retryAfterSeconds: 0 })),
  );
  const { router } = make({}, a);
  for (let n = 0; n < 20; n += 1) await failure(router.route(TO_A, context()));
  assert.ok(a.requests.length >= 20 && a.requests.length <= 25, String(a.requests.length));
});

test('a policy falls back to the next candidate, and the answer reports the reason', async () => {
  for (const [error, condition] of [
    [new SvcError('PROVIDER_AUTH', 'no key'), 'unavailable'],
    [new SvcError('BUSY', 'full', { retryAfterSeconds: 60 }), 'overloaded'],
    [new SvcError('CONTEXT_OVERFLOW', 'too long'), 'context_too_long'],
    [new SvcError('MODEL_NOT_FOUND', 'none'), 'model_missing'],
  ] as const) {
    const a = provider(
      'a',
      fails(() => error),
    );
    const b = provider('b', hello);
    const only = (on: readonly (typeof condition)[]): Policies => ({
      default: { candidates: ['a/one', 'b'], fallback_on: on },
    });
    const route = routeOf(await collect(make(only([condition]), a, b).router.route(REQUEST, context())));
    assert.equal(route, {
      requested: 'default',
      chosen: 'b',
      attempts: [
        { provider: 'a', model: 'one', outcome: 'failed', reason: error.message },
        { provider: 'b', model: 'tiny', outcome: 'ok', reason: null },
      ],
    });
    assert.is(a.requests[0]?.model, 'one');
    assert.is(await failure(make(only([]), a, b).router.route(REQUEST, context())), error);
    const opted = make(only([condition]), a, b).router.route({ ...REQUEST, fallback: false }, context());
    assert.is(await failure(opted), error);
  }
});

test('if all candidates fail, the error names each of them', async () => {
  const a = provider(
    'a',
    fails(() => new SvcError('PROVIDER_AUTH', 'no key')),
  );
  const b = provider(
    'b',
    fails(() => new SvcError('MODEL_NOT_FOUND', 'no such model', { hint: 'look' })),
  );
  const error = await failure(make(ALL, a, b).router.route(REQUEST, context()));
  assert.is(error.code, 'MODEL_NOT_FOUND');
  assert.is(error.message, 'all routes failed (a: no key; b: no such model)');
  assert.is(error.hint, 'look');
});

test('below scope admin, reasons are reduced to codes, because messages may name hosts', async () => {
  const guest = { kind: 'key', name: 'guest', address: '::1', scope: 'inference' } as const;
  const a = provider(
    'a',
    fails(() => new SvcError('PROVIDER_AUTH', 'secret.example:443 wants another key')),
  );
  const b = provider('b', hello);
  const asked = { ...context(), caller: guest };
  const route = routeOf(await collect(make(ALL, a, b).router.route(REQUEST, asked)));
  assert.equal(
    route.attempts.map(({ reason }) => reason),
    ['PROVIDER_AUTH', null],
  );
  b.script = a.script;
  const error = await failure(make(ALL, a, b).router.route(REQUEST, asked));
  assert.is(error.message, 'all routes failed (PROVIDER_AUTH; PROVIDER_AUTH)');
  assert.is((await collect(make(ALL, a, provider('b', hello)).router.route(REQUEST, context()))).length > 0, true);
});

test('a silent candidate gets its share of the deadline, the last one all the rest', async () => {
  let reason: unknown;
  const a = provider('a', async function* (_, { signal }) {
    yield START;
    reason = await aborted(signal);
    throw reason;
  });
  const b = provider('b', hello);
  const from = performance.now();
  const { router } = make(ALL, a, b);
  const route = routeOf(await collect(router.route({ ...REQUEST, timeout_ms: 4000 }, context())));
  assert.is(route.chosen, 'b', 'within the rest');
  assert.is((reason as SvcError).code, 'TIMEOUT');
  const ms = performance.now() - from;
  assert.ok(ms >= 1950, `${ms.toFixed(0)} ms`);
});

test('an abort while a retry is pending is reported at once', async () => {
  const client = new AbortController();
  const gone = new SvcError('CANCELLED', 'left');
  const a = provider(
    'a',
    fails(() => new SvcError('BUSY', 'later', { retryAfterSeconds: 15 })),
  );
  const { router } = make({}, a);
  const outcome = failure(router.route(TO_A, context(client.signal)));
  await waitFor('the refusal', () => a.requests.length === 1);
  await setImmediate();
  client.abort(gone);
  assert.is(await outcome, gone);
  assert.is(a.requests.length, 1);
});

test('the circuit of a failing provider opens, is tested by one request, and closes again', async () => {
  let works = false;
  const a = provider('a', async function* () {
    await setImmediate();
    if (!works) throw new SvcError('PROVIDER_FAILED', 'broken', { retryable: false });
    yield* hello();
  });
  const { router } = make({}, a);
  assert.is(router.providerHealth()[0]?.state, 'unknown');
  for (let n = 0; n < 5; n += 1) await failure(router.route(TO_A, context()));
  const open = await failure(router.route(TO_A, context()));
  assert.match(open.message, /^a failed 5 times in a row/);
  assert.is(open.code, 'NOT_READY');
  assert.is(a.requests.length, 5);
  assert.equal(
    router
      .providerHealth()
      .map(({ name, state, consecutive_failures, reason }) => [name, state, consecutive_failures, reason]),
    [['a', 'unhealthy', 5, 'PROVIDER_FAILED']],
  );

  works = true;
  const answered = async (): Promise<boolean> => {
    const results = await Promise.allSettled([1, 2, 3].map(() => collect(router.route(TO_A, context()))));
    return results.every(({ status }) => status === 'fulfilled');
  };
  await waitFor('the provider to be taken back', answered, { intervalMs: 100 });
  assert.is(router.providerHealth()[0]?.state, 'healthy');
});

test('an answer that breaks off counts as a provider failure; errors of the caller do not', async () => {
  const halves = provider('a', async function* () {
    yield START;
    yield text('half');
    throw broken();
  });
  const { router } = make({}, halves);
  for (let n = 0; n < 5; n += 1) await failure(router.route(TO_A, context()));
  assert.match((await failure(router.route(TO_A, context()))).message, /circuit open/);

  const strict = provider(
    'a',
    fails(() => new SvcError('INVALID_REQUEST', 'no')),
  );
  const other = make({}, strict).router;
  for (let n = 0; n < 8; n += 1) await failure(other.route(TO_A, context()));
  assert.is(strict.requests.length, 8);
  assert.is(other.providerHealth()[0]?.state, 'healthy');
});

test('short deadlines of a caller do not open the circuit for others', async () => {
  const slow: Script = async function* (_, { signal }) {
    throw await aborted(signal);
  };
  const breaksOff: Script = async function* (_, { signal }) {
    yield START;
    yield text('half');
    throw await aborted(signal);
  };
  for (const script of [slow, breaksOff]) {
    const a = provider('a', script);
    const { router } = make({}, a);
    for (let n = 0; n < 8; n += 1) {
      const error = await failure(router.route({ ...TO_A, timeout_ms: 2 + n }, context()));
      assert.is(error.code, 'TIMEOUT');
    }
    assert.is(a.requests.length, 8, 'each was asked');
    assert.not.equal(router.providerHealth()[0]?.state, 'unhealthy');
    a.script = hello;
    assert.is(routeOf(await collect(router.route(TO_A, context()))).chosen, 'a');
  }
});

test('a timeout of the daemon counts as a failure, and so does a caller deadline after long silence', async () => {
  const own = provider(
    'a',
    fails(() => new SvcError('TIMEOUT', 'no answer', { retryable: false })),
  );
  const { now } = performance;
  const silent = provider('a', async function* (_, { signal }) {
    const reason = await aborted(signal);
    performance.now = () => now.call(performance) + 40_000;
    throw reason;
  });
  try {
    for (const a of [own, silent]) {
      const { router } = make({}, a);
      for (let n = 0; n < 5; n += 1) {
        performance.now = now;
        await failure(router.route({ ...TO_A, timeout_ms: 20 }, context()));
      }
      performance.now = now;
      assert.match((await failure(router.route(TO_A, context()))).message, /circuit open/);
    }
  } finally {
    performance.now = now;
  }
});

test.run();
