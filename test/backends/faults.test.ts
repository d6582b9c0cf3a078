/** What callers observe when an engine dies, hangs or does not start. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { rejection } from '../support/errors.ts';
import { firstText } from '../support/first-text.ts';
import { standStill } from '../support/stand-still.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, isAlive, testWith, textOf } from './local-support.ts';
import type { Behaviour } from './fake-engine.ts';

/** A short stall timeout. The fake engine sends a heartbeat every 50 ms; on a busy machine they may pause. */
const SOON = { stall_timeout_seconds: 0.8 };

function it(
  what: string,
  models: Readonly<Record<string, Behaviour>>,
  settings: Parameters<typeof makeFakeLocal>[1],
  body: (local: FakeLocal) => Promise<void>,
): void {
  testWith(what, () => makeFakeLocal(models, settings), body);
}

const answer = (backend: LocalBackend, prompt: string, model = 'one'): Promise<GenerateEvent[]> =>
  collect(backend.generate(ask(prompt, model), context()));

it(
  'a crash after the first text fails the request, and the next request is answered',
  { one: {} },
  {},
  async ({ backend, starts }) => {
    const error = await failure(answer(backend, 'crash after 3'));
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.match(error.message, /the engine of one was ended by SIGKILL/);
    assert.ok(error.hint);
    assert.is(textOf(await answer(backend, 'say 2')), 'word word ');
    assert.is((await starts('one')).length, 2);
  },
);

it(
  'a crash before the first text is retried; the caller does not notice it',
  { one: {} },
  {},
  async ({ backend, starts, log }) => {
    const events = await answer(backend, 'crash once');
    assert.equal(
      events.map(({ type }) => type).filter((type) => type !== 'text'),
      ['start', 'finish'],
    );
    assert.is(textOf(events), 'word word ');
    assert.is((await starts('one')).length, 2);
    const told = log.filter(({ level }) => level === 'warn');
    assert.equal(
      told.map(({ fields }) => fields['id']),
      ['conformance'],
    );
  },
);

it('a request is tried at most twice', { one: {} }, {}, async ({ backend, starts }) => {
  assert.is((await failure(answer(backend, 'crash after 0'))).code, 'ENGINE_CRASHED');
  assert.is((await starts('one')).length, 2);
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
});

it(
  'other requests of a dead engine are retried or fail; those of other models continue',
  { one: {}, two: {} },
  {},
  async ({ backend, starts }) => {
    const other = backend.generate(ask('endless', 'two'), context())[Symbol.asyncIterator]();
    await firstText(other);

    const spoke = backend.generate(ask('endless', 'one'), context())[Symbol.asyncIterator]();
    await firstText(spoke);
    // The engine dies before it sends any text for this request.
    const silent = answer(backend, 'crash once');

    const error = await failure(collect(spoke));
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.is(textOf(await silent), 'word word ');
    assert.is((await starts('one')).length, 2);
    for (let pulls = 0; pulls < 10; pulls++) assert.is((await other.next()).value?.type, 'text');
    assert.is((await starts('two')).length, 1);
    await other.return();
  },
);

it(
  'cancelling a request that is retried alone lets the waiting requests run',
  { one: {} },
  {},
  async ({ backend, starts }) => {
    const leaving = new AbortController();
    const first = backend.generate(ask('crash then silence', 'one'), context(leaving.signal));
    const gone = failure(collect(first));
    await waitFor('the second start', async () => (await starts('one')).length === 2);
    const next = answer(backend, 'say 2');
    leaving.abort(new SvcError('CANCELLED', 'the client has left'));
    assert.is((await gone).code, 'CANCELLED');
    assert.is(textOf(await next), 'word word ');
  },
);

for (const [prompt, what] of [
  ['stop', /the engine of one was not heard of for \d+\.\d s$/],
  ['stall', /the engine of one was in one step for \d+\.\d s$/],
  ['garbage', /the engine of one sent a damaged frame$/],
  ['oversize', /the engine of one sent a damaged frame$/],
] as const) {
  it(`an engine with the fault "${prompt}" is killed`, { one: {} }, SOON, async ({ backend, starts }) => {
    const error = await failure(answer(backend, prompt));
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.match(error.message, what);
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
    const pids = await starts('one');
    assert.is(pids.length, 3);
    assert.equal(pids.filter(isAlive), pids.slice(2));
  });
}

it(
  'a request whose preparation never ends is rejected, not retried; its engine is killed',
  { one: {} },
  SOON,
  async ({ backend, starts }) => {
    const speaking = backend.generate(ask('endless', 'one'), context());
    await firstText(speaking);
    const error = await failure(answer(backend, 'prepare'));
    assert.is(error.code, 'INVALID_REQUEST', error.message);
    assert.match(error.message, /could not finish preparing this request/);
    const other = await failure(
      (async () => {
        while (!(await speaking.next()).done);
      })(),
    );
    assert.is(other.code, 'ENGINE_CRASHED');
    assert.match(other.message, /the engine of one prepared one request for \d+\.\d s$/);
    assert.is((await starts('one')).length, 1);
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'health reports an engine without heartbeats long before it is killed',
  { one: {} },
  {},
  async ({ backend, starts, changes }) => {
    await answer(backend, 'say 1');
    assert.is(backend.engineStatus().status, 'ok');
    const [pid = 0] = await starts('one');
    process.kill(pid, 'SIGSTOP');
    try {
      const before = changes();
      const { reason } = await waitFor(
        'a warning',
        () => (backend.engineStatus().status === 'warn' ? backend.engineStatus() : null),
        { timeoutMs: 45_000 },
      );
      assert.match(reason, /the engine of one has sent no heartbeat for over 10 s/);
      assert.ok(changes() > before);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await waitFor('the warning to go', () => backend.engineStatus().status === 'ok');
    assert.equal(await starts('one'), [pid]);
  },
);

for (const [load, what] of [
  ['hang', /was not heard of for \d+\.\d s while it was loading$/],
  ['exit', /exited with code 3 while it was loading$/],
  ['crash', /was ended by SIGKILL while it was loading$/],
] as const) {
  it(
    `a load with the fault "${load}" is tried twice`,
    { one: { load }, two: {} },
    SOON,
    async ({ backend, starts }) => {
      const error = await failure(answer(backend, 'say 1'));
      assert.is(error.code, 'ENGINE_CRASHED');
      assert.match(error.message, what);
      const pids = await starts('one');
      assert.is(pids.length, 2);
      assert.equal(pids.filter(isAlive), []);
      assert.is(textOf(await answer(backend, 'say 1', 'two')), 'word ');
    },
  );
}

it(
  'a load without progress but with heartbeats is killed, after a longer time',
  { one: { load: 'rest' } },
  SOON,
  async ({ backend }) => {
    const { message } = await failure(answer(backend, 'say 1'));
    const [, seconds = message] = /made no progress for (\d+\.\d) s while it was loading$/.exec(message) ?? [];
    assert.ok(Number(seconds) >= 10 * SOON.stall_timeout_seconds, seconds);
  },
);

it(
  'a load that fails with an error of the model is not retried',
  { one: { load: 'invalid' } },
  {},
  async ({ backend, starts }) => {
    const error = await failure(answer(backend, 'say 1'));
    assert.is(error.code, 'MODEL_INVALID');
    assert.is(error.message, 'this is no model');
    assert.is((await starts('one')).length, 1);
    assert.equal(
      backend.loadedModels().map(({ id, state, pid }) => ({ id, state, pid })),
      [{ id: 'one', state: 'failed', pid: null }],
    );
  },
);

it(
  'repeated crashes lead to NOT_READY instead of endless restarts; an explicit load resets this',
  { one: { load: 'crash' } },
  {},
  async ({ backend, behave, starts }) => {
    const codes: string[] = [];
    for (let request = 0; request < 6; request++) {
      const error = await failure(answer(backend, 'say 1'));
      codes.push(error.code);
      if (error.code === 'NOT_READY')
        assert.ok((error.retryAfterSeconds as number) >= 1 && (error.retryAfterSeconds as number) <= 4);
    }
    assert.equal(codes, ['ENGINE_CRASHED', 'ENGINE_CRASHED', 'NOT_READY', 'NOT_READY', 'NOT_READY', 'NOT_READY']);
    assert.is((await starts('one')).length, 5);

    await behave('one', {});
    const events = [];
    for await (const event of backend.load('one', new AbortController().signal)) events.push(event);
    assert.is(events.at(-1)?.type, 'loaded');
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'a kept engine restarts by itself, any other only on request',
  { kept: {}, other: {} },
  {},
  async ({ backend, starts, changes }) => {
    const signal = new AbortController().signal;
    for await (const _ of backend.load('kept', signal));
    await answer(backend, 'say 1', 'other');
    assert.is(backend.engineStatus().status, 'ok');
    const before = changes();
    for (const pid of backend.pids()) process.kill(pid, 'SIGKILL');

    await waitFor('the kept engine to come back', async () => (await starts('kept')).length === 2);
    await waitFor('it to be loaded', () =>
      backend.loadedModels().some(({ id, state }) => id === 'kept' && state === 'loaded'),
    );
    assert.ok(changes() > before);
    assert.is((await starts('other')).length, 1);
    assert.is(backend.engineStatus().status, 'ok');
  },
);

it('the condition follows the state of the kept engines', { one: {} }, {}, async ({ backend, behave }) => {
  assert.equal(backend.engineStatus(), { status: 'fail', reason: 'no engine has been started', sinceToken: null });
  assert.is(backend.record().state, 'unknown');
  for await (const _ of backend.load('one', new AbortController().signal));
  assert.is(backend.engineStatus().status, 'ok');
  assert.is(backend.record().state, 'healthy');

  await behave('one', { load: 'crash' });
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  await waitFor('the failure to show', () => backend.engineStatus().status === 'fail');
  assert.is(backend.record().state, 'unhealthy');
  // While no other engine is loaded, a restart does not change the condition until a token was produced.
  const reasons = new Set<string>();
  await waitFor('the second failure', () => {
    const { status, reason } = backend.engineStatus();
    assert.is(status, 'fail');
    reasons.add(reason);
    return [/is restarting/, /while it was loading/].every((wanted) => [...reasons].some((each) => wanted.test(each)));
  });

  await behave('one', {});
  await waitFor('the engine to come back', () => backend.engineStatus().status === 'ok');
});

it('requests that arrive together share one load', { one: { loadMs: 200 } }, {}, async ({ backend, starts }) => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => answer(backend, 'say 1')));
  assert.is(answers.length, 5);
  assert.is((await starts('one')).length, 1);
});

it(
  'a load is cancelled only when its last waiting request is cancelled',
  { one: { load: 'rest' } },
  {},
  async ({ backend, behave, starts }) => {
    const controllers = [new AbortController(), new AbortController()];
    const reason = new SvcError('CANCELLED', 'left');
    const both = controllers.map(({ signal }) =>
      failure(collect(backend.generate(ask('say 1', 'one'), context(signal)))),
    );
    await waitFor('the engine to start', async () => (await starts('one')).length === 1);
    const [pid] = (await starts('one')) as [number];

    controllers[0]?.abort(reason);
    assert.is(await both[0], reason);
    assert.ok(isAlive(pid));
    controllers[1]?.abort(reason);
    assert.is(await both[1], reason);
    await waitFor('the process to be gone', () => !isAlive(pid));
    assert.equal(backend.loadedModels(), []);
    await behave('one', {});
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'requests beyond the queue limit are rejected with BUSY',
  { one: {} },
  { max_sequences: 1, queue_limit: 1 },
  async ({ backend }) => {
    const controller = new AbortController();
    const running = [1, 2].map(() =>
      collect(backend.generate(ask('endless', 'one'), context(controller.signal))).catch(() => undefined),
    );
    await waitFor('both to run', () => {
      const [model] = backend.loadedModels();
      return model !== undefined && model.active + model.waiting === 2;
    });
    const error = await failure(answer(backend, 'say 1'));
    assert.is(error.code, 'BUSY');
    assert.ok((error.retryAfterSeconds as number) > 0);
    // Another caller has its own queue share, with the same limit.
    const bob = { kind: 'key', name: 'bob', address: '127.0.0.1', scope: 'inference' } as const;
    const asBob = { ...context(controller.signal), caller: bob };
    const his = collect(backend.generate(ask('endless', 'one'), asBob)).catch(() => undefined);
    await waitFor('his to be taken', () => {
      const [model] = backend.loadedModels();
      return model !== undefined && model.active + model.waiting === 3;
    });
    assert.is((await rejection(() => collect(backend.generate(ask('say 1', 'one'), asBob)), 'BUSY')).code, 'BUSY');
    controller.abort(new Error('enough'));
    await Promise.all([...running, his]);
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it('an error of the engine fails only its own request', { one: {} }, {}, async ({ backend, starts }) => {
  const [refused, answered] = await Promise.all([failure(answer(backend, 'refuse')), answer(backend, 'say 2')]);
  assert.is(refused.code, 'CONTEXT_OVERFLOW');
  assert.is(textOf(answered), 'word word ');
  assert.is((await starts('one')).length, 1);
});

it(
  'unload is refused while the model is in use, and ends its process otherwise',
  { one: {} },
  {},
  async ({ backend }) => {
    await backend.unload('one');
    const events = backend.generate(ask('endless', 'one'), context())[Symbol.asyncIterator]();
    await events.next();
    assert.is((await failure(backend.unload('one'))).code, 'BUSY');
    await events.return();
    const [pid] = backend.pids() as [number];
    await backend.unload('one');
    assert.not(isAlive(pid));
    assert.equal(backend.loadedModels(), []);
    assert.is((await failure(backend.unload('nobody'))).code, 'MODEL_NOT_FOUND');
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'load reports progress, and requests wait for the same load',
  { one: { loadMs: 2000 } },
  {},
  async ({ backend, starts }) => {
    const asked = answer(backend, 'say 1');
    const events = [];
    for await (const event of backend.load('one', new AbortController().signal)) events.push(event);
    const [pid] = (await starts('one')) as [number];
    assert.equal(events.at(-1), { type: 'loaded', model: 'one', pid, context_length: 1000 });
    const fractions = events.flatMap((event) => (event.type === 'progress' ? event.fraction : []));
    assert.ok(fractions.length >= 2);
    assert.equal(fractions, [...fractions].sort());
    const total = (await backend.models())[0]?.size_bytes ?? 0;
    for (const event of events)
      if (event.type === 'progress')
        assert.equal([event.done_bytes, event.total_bytes], [Math.round(event.fraction * total), total]);
    await asked;
    assert.is((await starts('one')).length, 1);

    const [model] = await backend.models();
    assert.is(model?.state, 'loaded');
    assert.is(model?.loaded?.pid, pid);
  },
);

it('engines survive if the daemon itself was blocked for a while', { one: {} }, SOON, async ({ backend, starts }) => {
  await answer(backend, 'say 1');
  for (let round = 0; round < 3; round++) {
    standStill(1500);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  assert.is((await starts('one')).length, 1);
});

it('a prompt appears in no log line', { one: {} }, {}, async ({ backend, log }) => {
  const prompt = 'crash after 1 canary-7f3a';
  await failure(answer(backend, prompt));
  await failure(answer(backend, 'garbage'));
  assert.ok(log.length > 0);
  assert.not.match(JSON.stringify(log), /canary/);
});

test.run();
