import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { setImmediate } from 'node:timers/promises';
import { SvcError } from '../../src/protocol/errors.ts';
import type { FinishEvent, StartEvent } from '../../src/protocol/generate.ts';
import { Router, type Outcome } from '../../src/routing/router.ts';
import { aborted, FINISH, hello, LOCAL, ScriptedBackend, START, text, type Script } from '../http/scripted.ts';
import { makeGate } from '../support/gate.ts';
import { collect, context, failure, REQUEST } from './support.ts';

function make(script: Script, ...more: ScriptedBackend[]): { router: Router; backend: ScriptedBackend } {
  const backend = new ScriptedBackend(script);
  return { router: new Router(new Map([backend, ...more].map((one) => [one.name, one]))), backend };
}

test('the route event comes first, then the events of the backend', async () => {
  const { router } = make(hello);
  assert.equal(await collect(router.route(REQUEST, context())), [
    {
      type: 'route',
      trace_id: 'trace',
      route: {
        requested: 'default',
        chosen: 'local',
        attempts: [{ provider: 'local', model: 'tiny', outcome: 'ok', reason: null }],
      },
    },
    START,
    text('hello '),
    text('world'),
    FINISH,
  ]);
});

test('the backend gets the request without the routing fields', async () => {
  const cloud = new ScriptedBackend(hello, { ...LOCAL, name: 'a', kind: 'openai' });
  const { router, backend } = make(hello, cloud);
  await collect(router.route({ ...REQUEST, model: 'a/gpt', timeout_ms: 1000 }, context()));
  await collect(router.route({ ...REQUEST, route: 'local' }, context()));
  assert.equal(cloud.requests, [{ ...REQUEST, model: 'gpt' }]);
  assert.equal(backend.requests, [REQUEST]);
});

test('an explicit choice never falls back', async () => {
  const broken = new SvcError('PROVIDER_AUTH', 'the key is wrong');
  const cloud = new ScriptedBackend(
    async function* () {
      throw broken;
    },
    { ...LOCAL, name: 'a', kind: 'openai' },
  );
  const { router, backend } = make(hello, cloud);
  assert.is(await failure(router.route({ ...REQUEST, route: 'provider:a' }, context())), broken);
  assert.is(await failure(router.route({ ...REQUEST, model: 'a/gpt' }, context())), broken);
  assert.is(backend.requests.length, 0);
});

test('waiting and active requests are counted, however they end', async () => {
  const counts: string[] = [];
  const { router, backend } = make(async function* () {
    counts.push(`${String(router.waiting)} ${String(router.active)}`);
    yield START;
    counts.push(`${String(router.waiting)} ${String(router.active)}`);
    yield FINISH;
  });
  await collect(router.route(REQUEST, context()));
  assert.equal(counts, ['1 0', '0 1']);

  backend.script = async function* () {
    throw new SvcError('BUSY', 'full');
  };
  await failure(router.route(REQUEST, context()));
  backend.script = async function* () {
    yield START;
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  await failure(router.route(REQUEST, context()));
  backend.script = hello;
  for await (const _ of router.route(REQUEST, context())) break;
  await failure(router.route({ ...REQUEST, route: 'cloud' }, context()));
  assert.equal([router.waiting, router.active], [0, 0]);
});

test('returning early also returns from the backend iterator', async () => {
  let ended = false;
  const { router } = make(async function* () {
    try {
      yield START;
      for (;;) yield text('more ');
    } finally {
      ended = true;
    }
  });
  for (const last of ['route', 'start', 'text']) {
    ended = false;
    for await (const { type } of router.route(REQUEST, context())) if (type === last) break;
    assert.ok(ended, last);
    assert.is(router.active, 0);
  }
});

test('an abort reaches the backend, and the consumer gets its reason even if the backend just returns', async () => {
  const client = new AbortController();
  const gone = new SvcError('CANCELLED', 'the client went away');
  const started = makeGate();
  const { router } = make(async function* (_, { signal }) {
    yield { ...START, input_tokens: 7 };
    started.open();
    await aborted(signal);
  });
  let estimated: Outcome['estimated'];
  router.observe((told) => {
    ({ estimated } = told);
    return Promise.resolve();
  });
  const outcome = failure(router.route(REQUEST, context(client.signal)));
  await started.opened;
  client.abort(gone);
  assert.is(await outcome, gone);
  assert.equal(estimated, { input_tokens: 7, output_tokens: 0 });
});

test('usage that no backend reports is estimated, from when a backend has started', async () => {
  const outcomes: Outcome[] = [];
  const ask = async (script: Script, leaveAfter = Infinity): Promise<Outcome['estimated']> => {
    const { router } = make(script);
    router.observe((outcome) => {
      outcomes.push(outcome);
      return Promise.resolve();
    });
    const client = new AbortController();
    // 4 bytes of the role and 396 of the prompt.
    const messages = [{ role: 'user' as const, content: 'é'.repeat(198) }];
    let seen = 0;
    try {
      for await (const event of router.route({ ...REQUEST, messages }, context(client.signal))) {
        if (event.type !== 'route' && (seen += 1) > leaveAfter) break;
      }
    } catch {
      // The outcome has the code.
    }
    return outcomes.at(-1)?.estimated;
  };
  const answering = (start: StartEvent, finish: FinishEvent): Script =>
    async function* () {
      yield start;
      yield { type: 'reasoning', text: 'x'.repeat(1000) };
      yield { type: 'tool_call', index: 0, id: 'A', name: 'look', arguments: 'x'.repeat(996) };
      yield text('x'.repeat(2000));
      yield finish;
    };
  const unreported = { ...FINISH, usage: null };
  assert.equal(await ask(answering(START, unreported)), { input_tokens: 100, output_tokens: 1000 });
  assert.equal(await ask(answering(START, FINISH), 2), { input_tokens: 100, output_tokens: 500 });
  assert.equal(await ask(answering({ ...START, input_tokens: 7 }, FINISH), 1), {
    input_tokens: 7,
    output_tokens: 250,
  });
  const short: Script = async function* () {
    yield START;
    for (const letter of 'abc') yield text(letter);
    yield unreported;
  };
  assert.is((await ask(short))?.output_tokens, 3);
  assert.is(await ask(answering(START, FINISH)), undefined);
  const refusing: Script = async function* () {
    yield START;
    throw new SvcError('PROVIDER_FAILED', 'no');
  };
  assert.is(await ask(refusing), undefined);
  assert.equal(
    outcomes.map(({ outcome }) => outcome),
    ['ok', 'CANCELLED', 'CANCELLED', 'ok', 'ok', 'PROVIDER_FAILED'],
  );
});

test('the prompt of a provider that has not begun to answer counts as well, and of this machine does not', async () => {
  let waiting = makeGate();
  const silent: Script = async function* (_, { signal }) {
    waiting.open();
    yield await aborted(signal).then((reason) => Promise.reject(reason as Error));
  };
  const { router } = make(silent, new ScriptedBackend(silent, { ...LOCAL, name: 'a', kind: 'openai' }));
  const outcomes: Outcome[] = [];
  router.observe((outcome) => {
    outcomes.push(outcome);
    return Promise.resolve();
  });
  const messages = [{ role: 'user' as const, content: 'x'.repeat(396) }];
  for (const route of ['provider:a', 'local'] as const) {
    waiting = makeGate();
    const client = new AbortController();
    const answer = failure(router.route({ ...REQUEST, messages, route }, context(client.signal)));
    await waiting.opened;
    client.abort(new SvcError('CANCELLED', 'the client went away'));
    await answer;
  }
  assert.equal(
    outcomes.map(({ provider, estimated }) => [provider, estimated]),
    [
      ['a', { input_tokens: 100, output_tokens: 0 }],
      ['local', undefined],
    ],
  );
});

test('a deadline counts from arrival and ends in TIMEOUT', async () => {
  let reason: unknown;
  const { router } = make(async function* (_, { signal }) {
    yield START;
    reason = await aborted(signal);
    throw reason;
  });
  // Counted from now the deadline would be an hour away; counted from arrival, one second is left.
  const arrivedAt = performance.now() - 3_600_000;
  const timeout_ms = 3_601_000;
  const error = await failure(router.route({ ...REQUEST, timeout_ms }, { ...context(), arrivedAt }));
  assert.is(error.code, 'TIMEOUT');
  assert.is(reason, error);
  // Timers have millisecond resolution.
  assert.ok(performance.now() - arrivedAt > timeout_ms - 5, 'not before it');
  assert.is((await failure(router.route({ ...REQUEST, timeout_ms: 1 }, { ...context(), arrivedAt }))).code, 'TIMEOUT');
});

test('a stream that ends without a finish is a failure', async () => {
  const { router } = make(async function* () {
    yield START;
    yield text('half');
  });
  assert.is((await failure(router.route(REQUEST, context()))).code, 'PROVIDER_FAILED');
});

test('while draining, new requests are refused and running ones finish; idle resolves then', async () => {
  const mayEnd = makeGate();
  const { router, backend } = make(async function* () {
    yield START;
    await mayEnd.opened;
    yield FINISH;
  });
  await router.idle();
  const running = collect(router.route(REQUEST, context()));
  router.drain();
  router.drain();
  const refused = await failure(router.route(REQUEST, context()));
  assert.is(refused.code, 'NOT_READY');
  assert.is(refused.retryAfterSeconds, 1);
  let idle = false;
  const settled = router.idle().then(() => (idle = true));
  await setImmediate();
  assert.not.ok(idle);
  mayEnd.open();
  assert.is((await running).length, 3);
  await settled;
  assert.is(backend.requests.length, 1);
  router.resume();
  assert.is((await collect(router.route(REQUEST, context()))).length, 3);
});

test.run();
