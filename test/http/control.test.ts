import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { waitFor } from '../support/wait.ts';
import { ask } from './ask.ts';
import { aborted, hello, LOCAL, START, startScripted, text, TINY, type ScriptedListener } from './scripted.ts';

const REQUEST: GenerateRequest = { messages: [{ role: 'user', content: 'hi' }], sampling: {}, stop: [] };
const NEVER = new AbortController().signal;
const HALF = { type: 'progress', fraction: 0.5, done_bytes: 5, total_bytes: 10, bytes_per_second: 1 } as const;

let control: ScriptedListener;
let client: ControlClient;
test.before(async () => {
  control = await startScripted({ control: true });
  client = new ControlClient(control.socketPath);
});
test.after(() => control.stop());
test.before.each(() => {
  control.backend.script = hello;
});

async function collect<Event>(events: AsyncIterable<Event>): Promise<{ all: Event[]; error: SvcError | undefined }> {
  const all: Event[] = [];
  try {
    for await (const event of events) all.push(event);
  } catch (error) {
    return { all, error: error as SvcError };
  }
  return { all, error: undefined };
}

test('the control routes return their records', async () => {
  assert.equal(await client.status(), { state: 'READY' });
  assert.equal(await client.models(), [TINY]);
  assert.equal(await client.providers(), [LOCAL]);
  assert.is((await client.ready()).status, 'ready');
  assert.is((await client.health()).status, 'ready');
});

test('the routes of the TCP listener are served here too', async () => {
  assert.is((await ask(control, '/livez')).status, 200);
  assert.is((await ask(control, '/v1/chat/completions', { body: REQUEST })).status, 200);
});

test('the TCP listener does not serve the control routes, with any method', async () => {
  const tcp = await startScripted();
  try {
    for (const path of Object.values(CONTROL_ROUTES)) {
      for (const method of ['GET', 'POST', 'OPTIONS']) {
        const answer = await ask(tcp, path, {
          method,
          ...(method === 'POST' ? { body: { model: 'tiny', drain_timeout_ms: 0, drain: true } } : {}),
        });
        assert.is(answer.status, 404, `${method} ${path}`);
      }
    }
    assert.equal([tcp.world.stopped, tcp.world.unloaded, tcp.router.draining], [[], [], false]);
  } finally {
    await tcp.stop();
  }
});

test('stop and unload', async () => {
  await client.stop(5000);
  assert.equal(control.world.stopped, [5000]);
  const accepted = await ask(control, CONTROL_ROUTES.stop, { body: { drain_timeout_ms: 0 } });
  assert.is(accepted.status, 202);
  assert.equal(accepted.json(), {});
  await client.unload('tiny');
  assert.equal(control.world.unloaded, ['tiny']);
});

test('a drain refuses new requests until it is undone', async () => {
  const drain = async (body: object) => await ask(control, CONTROL_ROUTES.drain, { body });
  assert.equal((await drain({ drain: true })).json(), { draining: true, active: 0, waiting: 0 });
  assert.is((await collect(client.generate(REQUEST))).error?.code, 'NOT_READY');
  assert.equal((await drain({ drain: false })).json(), { draining: false, active: 0, waiting: 0 });
  assert.is((await collect(client.generate(REQUEST))).error, undefined);
  for (const body of [{}, { drain: 'yes' }, { drain: null }]) {
    const refused = await drain(body);
    assert.equal([refused.status, refused.json().error.param], [400, 'drain']);
  }
});

test('providers: models, test, and a key lent to the daemon', async () => {
  assert.equal(await client.providerModels('mine'), ['small']);
  const steps = [];
  for await (const step of client.testProvider('mine', new AbortController().signal)) steps.push(step.step);
  assert.equal(steps, ['key']);
  await client.lendKey('mine', 'sk-lent');
  assert.equal(control.world.lent, ['mine sk-lent']);
  const secret = 'sk lent';
  const answer = await ask(control, CONTROL_ROUTES.providerKey, { body: { provider: 'mine', key: secret } });
  assert.equal([answer.status, answer.json().error.param], [400, 'key']);
  assert.not.ok(answer.text.includes(secret));
});

test('an invalid request is refused, naming the field', async () => {
  for (const body of [{}, { drain_timeout_ms: -1 }, { drain_timeout_ms: '5' }, { drain_timeout_ms: 1e12 }]) {
    const answer = await ask(control, CONTROL_ROUTES.stop, { body });
    assert.is(answer.status, 400);
    assert.is(answer.json().error.param, 'drain_timeout_ms');
  }
  for (const path of [CONTROL_ROUTES.load, CONTROL_ROUTES.unload]) {
    for (const body of [{}, { model: '' }, { model: 5 }])
      assert.is((await ask(control, path, { body })).json().error.param, 'model');
  }
  const answer = await ask(control, HTTP_ROUTES.runtimeGenerate, { body: { ...REQUEST, sampling: { top_p: 2 } } });
  assert.is(answer.json().error.param, 'sampling.top_p');
  assert.is((await ask(control, CONTROL_ROUTES.status, { method: 'POST' })).status, 405);
  assert.is((await ask(control, CONTROL_ROUTES.stop)).status, 405, 'no state changes on GET');
});

test('generate streams one event per line; a model file may be named here', async () => {
  const { all, error } = await collect(client.generate({ ...REQUEST, model: 'file:/a/b.gguf' }));
  assert.is(error, undefined);
  assert.equal(
    all.map(({ type }) => type),
    ['route', 'start', 'text', 'text', 'finish'],
  );
  assert.is(control.backend.requests.at(-1)?.model, 'file:/a/b.gguf');
  const answer = await ask(control, HTTP_ROUTES.runtimeGenerate, { body: REQUEST });
  assert.is(answer.headers['content-type'], 'application/x-ndjson; charset=utf-8');
  assert.is(answer.text.split('\n').length, 6);
  assert.is(JSON.parse(answer.text.split('\n')[0] ?? '').trace_id, answer.headers['x-request-id']);
});

test('an error before the first event is an HTTP status; later it is the last event of a cut stream', async () => {
  control.backend.script = async function* () {
    throw new SvcError('MODEL_NOT_FOUND', 'no such model', { hint: 'see `svc model list`' });
  };
  const early = await ask(control, HTTP_ROUTES.runtimeGenerate, { body: REQUEST });
  assert.is(early.status, 404);
  assert.equal(early.json(), {
    id: early.headers['x-request-id'],
    error: { code: 'MODEL_NOT_FOUND', message: 'no such model', hint: 'see `svc model list`' },
  });

  control.backend.script = async function* () {
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  const late = await ask(control, HTTP_ROUTES.runtimeGenerate, { body: REQUEST });
  assert.not.ok(late.complete);
  assert.equal(JSON.parse(late.text.trimEnd().split('\n').at(-1) ?? ''), {
    type: 'error',
    id: late.headers['x-request-id'],
    error: { code: 'ENGINE_CRASHED', message: 'gone' },
  });
  const { all, error } = await collect(client.generate(REQUEST));
  assert.is(all.length, 3);
  assert.is(error?.code, 'ENGINE_CRASHED');
});

test('load streams its progress, and reports errors before and after the first event', async () => {
  control.world.load = async function* (model) {
    yield HALF;
    yield { type: 'loaded', model, pid: 7, context_length: 10 };
  };
  const { all } = await collect(client.load('file:/a/b.gguf', NEVER));
  assert.equal(all, [HALF, { type: 'loaded', model: 'file:/a/b.gguf', pid: 7, context_length: 10 }]);

  const invalid = new SvcError('MODEL_INVALID', 'this is no GGUF');
  control.world.load = async function* () {
    throw invalid;
  };
  assert.is((await collect(client.load('x', NEVER))).error?.code, 'MODEL_INVALID');
  control.world.load = async function* () {
    yield HALF;
    yield { type: 'error', id: 'x', error: invalid.toRecord() };
  };
  const late = await collect(client.load('x', NEVER));
  assert.is(late.all.length, 1);
  assert.is(late.error?.code, 'MODEL_INVALID');
});

test('a client that disconnects ends its load or generation', async () => {
  let ended: string[] = [];
  control.world.load = async function* (_, signal) {
    yield { ...HALF, fraction: 0, done_bytes: 0 };
    ended = [...ended, 'load'];
    throw await aborted(signal);
  };
  control.backend.script = async function* (_, { signal }) {
    yield START;
    yield text('x');
    const reason = await aborted(signal);
    ended = [...ended, 'generate'];
    throw reason;
  };
  for await (const _ of client.load('x', NEVER)) break;
  for await (const _ of client.generate(REQUEST)) break;
  await waitFor('both to end', () => ended.length === 2);
  await waitFor('the router', () => control.router.active === 0);

  const gone = new AbortController();
  const cancelled = collect(client.generate(REQUEST, { signal: gone.signal }));
  await waitFor('the generation', () => control.router.active === 1);
  gone.abort();
  assert.is((await cancelled).error?.code, 'CANCELLED');
  await waitFor('the router', () => control.router.active === 0);
});

test.run();
