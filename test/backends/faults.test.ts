/** What the callers of a model notice when its engine dies, hangs or does not start. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { rejection } from '../support/errors.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, isAlive, testWith, textOf } from './local-support.ts';
import type { Behaviour } from './fake-engine.ts';

/** A stall timeout for faults that are to be noticed; heartbeats of the fake come every 50 ms. */
const SOON = { stall_timeout_seconds: 0.6 };

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
  'a crash after the first text fails that request, and the next one is answered',
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

it('a crash before the first text is not noticed', { one: {} }, {}, async ({ backend, starts, log }) => {
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
});

it('a request is tried twice at most', { one: {} }, {}, async ({ backend, starts }) => {
  assert.is((await failure(answer(backend, 'crash after 0'))).code, 'ENGINE_CRASHED');
  assert.is((await starts('one')).length, 2);
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
});

it(
  'other requests of a dead engine are retried or fail, those of other models go on',
  { one: {}, two: {} },
  {},
  async ({ backend, starts }) => {
    const other = backend.generate(ask('endless', 'two'), context())[Symbol.asyncIterator]();
    while ((await other.next()).value?.type !== 'text');

    const spoke = backend.generate(ask('endless', 'one'), context())[Symbol.asyncIterator]();
    while ((await spoke.next()).value?.type !== 'text');
    // The engine dies before it says a word to this one.
    const silent = answer(backend, 'crash once');

    const error = await failure(
      (async () => {
        while (!(await spoke.next()).done);
      })(),
    );
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.is(textOf(await silent), 'word word ');
    assert.is((await starts('one')).length, 2);
    for (let pulls = 0; pulls < 10; pulls++) assert.is((await other.next()).value?.type, 'text');
    assert.is((await starts('two')).length, 1);
    await other.return();
  },
);

it(
  'a prompt that ends its engine twice ends the answers of others once',
  { one: {} },
  {},
  async ({ backend, starts }) => {
    // Dies with its engine both times; the others have not begun to be answered, or come while it is tried again.
    const poison = failure(answer(backend, 'poison'));
    const beside = Array.from({ length: 4 }, () => answer(backend, 'shy 2'));
    await waitFor('the second start', async () => (await starts('one')).length === 2);
    const later = Array.from({ length: 4 }, () => answer(backend, 'say 100'));
    assert.is((await poison).code, 'ENGINE_CRASHED');
    for (const events of await Promise.all([...beside, ...later])) assert.is(events.at(-1)?.type, 'finish');
    assert.is((await starts('one')).length, 3);
  },
);

it('a suspect that leaves keeps nobody waiting', { one: {} }, {}, async ({ backend, starts }) => {
  const leaving = new AbortController();
  const first = backend.generate(ask('crash then silence', 'one'), context(leaving.signal));
  const gone = failure(collect(first));
  await waitFor('the second start', async () => (await starts('one')).length === 2);
  const next = answer(backend, 'say 2');
  leaving.abort(new SvcError('CANCELLED', 'the client has left'));
  assert.is((await gone).code, 'CANCELLED');
  assert.is(textOf(await next), 'word word ');
});

for (const [prompt, what] of [
  ['stop', /the engine of one was not heard of for 0\.\d s$/],
  ['stall', /the engine of one was in one step for 0\.\d s$/],
  ['garbage', /the engine of one sent a damaged frame$/],
  ['oversize', /the engine of one sent a damaged frame$/],
] as const) {
  it(`an engine that shows ${prompt} is ended`, { one: {} }, SOON, async ({ backend, starts }) => {
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
  'a request that the engine prepares without end fails alone and is not tried again',
  { one: {} },
  SOON,
  async ({ backend, starts }) => {
    const speaking = backend.generate(ask('endless', 'one'), context());
    assert.is((await speaking.next()).value?.type, 'start');
    const queued = answer(backend, 'prepare');
    const error = await failure(queued);
    assert.is(error.code, 'INVALID_REQUEST', error.message);
    assert.match(error.message, /could not finish preparing this request/);
    const other = await failure(
      (async () => {
        while (!(await speaking.next()).done);
      })(),
    );
    assert.is(other.code, 'ENGINE_CRASHED');
    assert.match(other.message, /the engine of one prepared one request for 0\.\d s$/);
    assert.is((await starts('one')).length, 1);
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'an engine without a heartbeat shows in health long before it is ended',
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
  ['hang', /was not heard of for 0\.\d s while it was loading$/],
  ['exit', /exited with code 3 while it was loading$/],
  ['crash', /was ended by SIGKILL while it was loading$/],
] as const) {
  it(`a load that ends in ${load} is tried twice`, { one: { load }, two: {} }, SOON, async ({ backend, starts }) => {
    const error = await failure(answer(backend, 'say 1'));
    assert.is(error.code, 'ENGINE_CRASHED');
    assert.match(error.message, what);
    const pids = await starts('one');
    assert.is(pids.length, 2);
    assert.equal(pids.filter(isAlive), []);
    assert.is(textOf(await answer(backend, 'say 1', 'two')), 'word ');
  });
}

it(
  'a load that is alive but does not get on is ended, later',
  { one: { load: 'rest' } },
  // On a busy machine the heartbeat may pause for a tenth of a second.
  { stall_timeout_seconds: 0.3 },
  async ({ backend }) => {
    const error = await failure(answer(backend, 'say 1'));
    assert.match(error.message, /made no progress for 3\.\d s while it was loading$/);
  },
);

it('a load that fails by itself is not tried again', { one: { load: 'invalid' } }, {}, async ({ backend, starts }) => {
  const error = await failure(answer(backend, 'say 1'));
  assert.is(error.code, 'MODEL_INVALID');
  assert.is(error.message, 'this is no model');
  assert.is((await starts('one')).length, 1);
  assert.equal(
    backend.loadedModels().map(({ id, state, pid }) => ({ id, state, pid })),
    [{ id: 'one', state: 'failed', pid: null }],
  );
});

it(
  'repeated crashes end in NOT_READY, not in a spin; loading by name forgives',
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
  'a kept engine comes back by itself, another only when asked',
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

it('the condition follows the engines that matter', { one: {} }, {}, async ({ backend, behave }) => {
  assert.equal(backend.engineStatus(), { status: 'fail', reason: 'no engine has been started', sinceToken: null });
  assert.is(backend.record().state, 'unknown');
  for await (const _ of backend.load('one', new AbortController().signal));
  assert.is(backend.engineStatus().status, 'ok');
  assert.is(backend.record().state, 'healthy');

  await behave('one', { load: 'crash' });
  process.kill(backend.pids()[0] as number, 'SIGKILL');
  await waitFor('the failure to show', () => backend.engineStatus().status === 'fail');
  assert.is(backend.record().state, 'unhealthy');
  // Being started again is no better, while no other engine is loaded: until a token has come.
  const reasons = new Set<string>();
  await waitFor('the second failure', () => {
    const { status, reason } = backend.engineStatus();
    assert.is(status, 'fail');
    reasons.add(reason);
    return [/started again/, /while it was loading/].every((wanted) => [...reasons].some((each) => wanted.test(each)));
  });

  await behave('one', {});
  await waitFor('the engine to come back', () => backend.engineStatus().status === 'ok');
});

it('requests that arrive together wait for one load', { one: { loadMs: 200 } }, {}, async ({ backend, starts }) => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => answer(backend, 'say 1')));
  assert.is(answers.length, 5);
  assert.is((await starts('one')).length, 1);
});

it(
  'a load that nobody waits for is given up; one that somebody waits for is not',
  { one: { loadMs: 600 } },
  {},
  async ({ backend, starts }) => {
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
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  },
);

it(
  'more than the queue takes is refused with BUSY',
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
    // Another caller finds its part all the same, and no more than that.
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

it('an error of the engine reaches its own request only', { one: {} }, {}, async ({ backend, starts }) => {
  const [refused, answered] = await Promise.all([failure(answer(backend, 'refuse')), answer(backend, 'say 2')]);
  assert.is(refused.code, 'CONTEXT_OVERFLOW');
  assert.is(textOf(answered), 'word word ');
  assert.is((await starts('one')).length, 1);
});

it('unload is refused while the model is used, and ends its process after', { one: {} }, {}, async ({ backend }) => {
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
});

it('load tells its progress and is joined by requests', { one: { loadMs: 500 } }, {}, async ({ backend, starts }) => {
  const asked = answer(backend, 'say 1');
  const events = [];
  for await (const event of backend.load('one', new AbortController().signal)) events.push(event);
  const [pid] = (await starts('one')) as [number];
  assert.equal(events.at(-1), { type: 'loaded', model: 'one', pid, context_length: 1000 });
  const fractions = events.flatMap((event) => (event.type === 'progress' ? event.fraction : []));
  assert.ok(fractions.length >= 2);
  assert.equal(fractions, [...fractions].sort());
  await asked;
  assert.is((await starts('one')).length, 1);

  const [model] = await backend.models();
  assert.is(model?.state, 'loaded');
  assert.is(model?.loaded?.pid, pid);
});

it('a daemon that was away for a while does not blame its engines', { one: {} }, SOON, async ({ backend, starts }) => {
  await answer(backend, 'say 1');
  for (let round = 0; round < 3; round++) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  assert.is((await starts('one')).length, 1);
});

it('a prompt stands in no log line and no command line', { one: {} }, {}, async ({ backend, log }) => {
  const prompt = 'crash after 1 canary-7f3a';
  await failure(answer(backend, prompt));
  await failure(answer(backend, 'garbage'));
  assert.ok(log.length > 0);
  assert.not.match(JSON.stringify(log), /canary/);
});

test.run();
