/** The gRPC listener over scripted services: its answers, limits and errors. */
import { once } from 'node:events';
import { status, type ServiceError } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ERRORS, SvcError, type ErrorCode } from '../../src/protocol/errors.ts';
import type { Condition } from '../../src/protocol/records.ts';
import { aborted, FINISH, START, text, type Script } from '../http/scripted.ts';
import { waitFor } from '../support/wait.ts';
import { failureOf, readFailure } from './scripted.ts';
import { HEADERS, next, PARTIAL, raw, starter, watchStatus } from './listener-support.ts';

const PROMPT = 'a secret of the user';
const REQUEST = { messages: [{ role: 'user', content: PROMPT }] };
const FAILED: Condition[] = [{ name: 'engine', status: 'fail', reason: 'it is gone', since: '2026-11-01T00:00:00Z' }];

const start = starter(test);

test('the events of an answer arrive in order', async () => {
  const grpc = await start();
  const events: any[] = [];
  for await (const event of grpc.connect().stream('Inference/Generate', REQUEST)) events.push(event);
  assert.equal(
    events.map(({ event }) => event),
    ['route', 'start', 'text', 'text', 'finish'],
  );
  assert.equal([events[0].route.requested, events[0].route.chosen], ['default', 'local']);
  assert.equal([events[1].start.model, events[2].text.text, events[3].text.text], ['tiny', 'hello ', 'world']);
  const { reason, usage, timings } = events[4].finish;
  assert.equal([reason, usage], [FINISH.reason, FINISH.usage]);
  assert.equal([timings.queue_ms, timings.ttft_ms, timings.total_ms, timings.tokens_per_second], [1, 2, 3, 4]);
});

test('a request is converted as over HTTP: absent fields stay unset', async () => {
  const grpc = await start();
  const client = grpc.connect();
  for await (const _ of client.stream('Inference/Generate', REQUEST));
  assert.equal(grpc.backend.requests[0], { ...REQUEST, sampling: {}, stop: [] });

  const sampling = { temperature: 0, top_k: 0, top_p: 0.5, min_p: 0, seed: 0, logit_bias: [{ token: 7, bias: -1 }] };
  const local = { truncate: true, priority: 'batch', context_length: 6000, keep_alive_seconds: -1 };
  const full = { ...REQUEST, ...local, model: 'tiny', max_tokens: 3, stop: ['a', 'b'], sampling };
  for await (const _ of client.stream('Inference/Generate', full));
  assert.equal(grpc.backend.requests[1], { ...full, sampling: { ...sampling, logit_bias: [[7, -1]] } });
});

const SCHEMA = { type: 'object', properties: { city: { type: 'string' } } };
/** A request with tools, images, sounds and reasoning, as a client sends it. */
const TOOLS_SENT = {
  messages: [
    { role: 'user', content: 'Where?', parts: [{ image: { media_type: 'image/png', data: Buffer.from('png') } }] },
    { role: 'user', parts: [{ text: 'And' }, { image_url: 'https://example.com/a.png' }] },
    { role: 'user', parts: [{ audio: { media_type: 'audio/flac', data: Buffer.from('fLaC') } }] },
    { role: 'assistant', reasoning: 'hm', tool_calls: [{ id: 'c1', name: 'weather', arguments: '{}' }] },
    { role: 'tool', content: 'rain', tool_call_id: 'c1' },
  ],
  tools: [{ name: 'weather', parameters: JSON.stringify(SCHEMA) }, { name: 'time' }],
  tool_choice: 'weather',
  parallel_tool_calls: false,
  reasoning_effort: 'low',
};
/** The same request, as the backend receives it. */
const TOOLS_RECEIVED = {
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where?' },
        { type: 'image', media_type: 'image/png', data: Buffer.from('png').toString('base64') },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'And' },
        { type: 'image_url', url: 'https://example.com/a.png' },
      ],
    },
    {
      role: 'user',
      content: [{ type: 'audio', media_type: 'audio/flac', data: Buffer.from('fLaC').toString('base64') }],
    },
    { role: 'assistant', content: '', reasoning: 'hm', tool_calls: TOOLS_SENT.messages[3]?.tool_calls },
    { role: 'tool', content: 'rain', tool_call_id: 'c1' },
  ],

  sampling: {},
  stop: [],
  tools: [
    { name: 'weather', parameters: SCHEMA },
    { name: 'time', parameters: {} },
  ],
  tool_choice: { name: 'weather' },
  parallel_tool_calls: false,
  reasoning_effort: 'low',
};

test('tools, images, sounds and reasoning make the round trip', async () => {
  const grpc = await start();
  grpc.backend.script = async function* () {
    yield START;
    yield { type: 'reasoning', text: 'hm' };
    yield { type: 'tool_call', index: 0, id: 'c2', name: 'weather', arguments: '{"city"' };
    yield { type: 'tool_call', index: 0, arguments: ':"Oslo"}' };
    yield { ...FINISH, reason: 'tool_calls', usage: null };
  };
  const client = grpc.connect();
  const events: any[] = [];
  for await (const event of client.stream('Inference/Generate', TOOLS_SENT)) events.push(event);
  assert.equal(grpc.backend.requests[0], TOOLS_RECEIVED);
  assert.equal(
    events.map(({ event }) => event),
    ['route', 'start', 'reasoning', 'tool_call', 'tool_call', 'finish'],
  );
  const { index, id, name } = events[3].tool_call;
  assert.equal([events[2].reasoning.text, index, id, name], ['hm', 0, 'c2', 'weather']);
  assert.equal([events[3].tool_call.arguments, events[4].tool_call.arguments], ['{"city"', ':"Oslo"}']);
  assert.is(events[5].finish.usage, null);
  const wrong = await failureOf(
    client.stream('Inference/Generate', { ...TOOLS_SENT, tools: [{ name: 'f', parameters: '{' }] }),
  );
  assert.equal([wrong.status, wrong.metadata['param']], [status.INVALID_ARGUMENT, 'tools[0].parameters']);
});

test('every error has its gRPC status, its code as the reason, and an id that is also in the log', async () => {
  let thrown: SvcError = new SvcError('INTERNAL', '');
  const grpc = await start({
    async *script() {
      throw thrown;
    },
  });
  const client = grpc.connect();
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    thrown = new SvcError(code, `how ${code} feels: ü`, { hint: 'a hint', param: 'messages' });
    const failure = await failureOf(client.stream('Inference/Generate', REQUEST));
    assert.equal([failure.status, failure.message, failure.reason], [ERRORS[code].grpc, thrown.message, code]);
    const { request_id: id, ...metadata } = failure.metadata;
    assert.equal(metadata, { hint: 'a hint', param: 'messages' });
    assert.is(failure.retrySeconds, code === 'BUSY' || code === 'NOT_READY' ? 1 : undefined, code);
    const logged = grpc.logged.filter((line) => line['id'] === id).map(({ msg }) => msg);
    assert.equal(logged, ['call failed', 'call'], code);
  }
  assert.not.ok(JSON.stringify(grpc.logged).includes(PROMPT));
});

test('an internal error does not reveal its message', async () => {
  const grpc = await start({
    async *script() {
      throw new TypeError(PROMPT);
    },
  });
  const failure = await failureOf(grpc.connect().stream('Inference/Generate', REQUEST));
  assert.equal([failure.status, failure.reason], [status.INTERNAL, 'INTERNAL']);
  assert.not.ok(failure.message.includes(PROMPT));
});

test('an error after the first text ends the stream with that error', async () => {
  const grpc = await start({
    async *script() {
      yield START;
      yield text('half');
      throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
    },
  });
  const call = grpc.connect().stream('Inference/Generate', REQUEST);
  const seen: string[] = [];
  call.on('data', ({ event }: { event: string }) => seen.push(event));
  const [error] = (await once(call, 'error')) as [{ code: number }];
  assert.equal(seen, ['route', 'start', 'text']);
  assert.is(error.code, status.UNAVAILABLE);
});

test('a model is never a file path, and an invalid field is named', async () => {
  const grpc = await start();
  const client = grpc.connect();
  const file = await failureOf(client.stream('Inference/Generate', { ...REQUEST, model: 'file:/etc/passwd' }));
  assert.equal([file.status, file.reason], [status.NOT_FOUND, 'MODEL_NOT_FOUND']);
  const none = await failureOf(client.stream('Inference/Generate', { messages: [] }));
  assert.equal([none.status, none.reason, none.metadata['param']], [3, 'INVALID_REQUEST', 'messages']);
  assert.is(grpc.backend.requests.length, 0);
});

test('a cancel and a deadline reach the backend', async () => {
  const reasons: string[] = [];
  const grpc = await start({
    async *script(_, { signal }) {
      yield START;
      yield text('x');
      const reason = (await aborted(signal)) as SvcError;
      reasons.push(reason.code);
      throw reason;
    },
  });
  const client = grpc.connect();
  const call = client.stream('Inference/Generate', REQUEST);
  await next(call);
  const cancelled = failureOf(call);
  call.cancel();
  assert.is((await cancelled).status, status.CANCELLED);
  await waitFor('the backend to hear it', () => reasons.length === 1);
  assert.is(reasons[0], 'CANCELLED');

  // A deadline may pass before the backend is asked: then it is tried with a longer one.
  let begun = 0;
  for (let ms = 50; begun === 0; ms *= 2) {
    const before = grpc.backend.requests.length;
    const late = await failureOf(client.stream('Inference/Generate', REQUEST, { deadline: Date.now() + ms }));
    assert.is(late.status, status.DEADLINE_EXCEEDED);
    begun = grpc.backend.requests.length - before;
  }
  await waitFor('the backend to hear it', () => reasons.length === 2);
  await waitFor('the router to forget both', () => grpc.router.active + grpc.router.waiting === 0);
});

test('a client that does not read stalls its generation, which is then cancelled', async () => {
  const KIB = 1024;
  let produced = 0;
  let over = false;
  const endless: Script = async function* () {
    try {
      yield START;
      for (;;) {
        yield text('x'.repeat(KIB));
        produced += 1;
      }
    } finally {
      over = true;
    }
  };
  // Client and listener are one process: one that waits that long for the processor would seem to be a stalled client.
  const grpc = await start({ script: endless, grpc: { stallMs: 2000 } });
  const call = grpc.connect().stream('Inference/Generate', REQUEST);
  call.on('error', () => undefined);
  // A client of this library buffers everything until its first read.
  await next(call);
  await waitFor('the listener to give it up', () => over);
  assert.ok(produced > 16, `${String(produced)} KiB fill the buffers`);
  assert.ok(produced < 1024, `${String(produced)} KiB were produced for nobody`);
  call.resume();
  const [error] = (await once(call, 'error')) as [{ code: number }];
  assert.is(error.code, status.CANCELLED);
});

test('health watch: the current record, then each change; a slow reader gets the newest', async () => {
  const grpc = await start();
  const { healthFeed } = grpc.services;
  const client = grpc.connect();
  const call = client.stream('Runtime/WatchHealth');
  call.on('error', () => undefined);
  const first = await next(call);
  assert.equal([first.sequence, first.health.status], [healthFeed.sequence, 'ready']);
  grpc.world.conditions = FAILED;
  healthFeed.changed();
  const second = await next(call);
  assert.equal([second.sequence, second.health.status], [Number(first.sequence) + 1, 'not_ready']);

  // More than all buffers between client and server hold.
  const CHANGES = 2000;
  for (let i = 0; i < CHANGES; i += 1) {
    grpc.world.conditions = [{ ...FAILED[0]!, reason: `${String(i)} ${'x'.repeat(4096)}` }];
    healthFeed.changed();
    if (i % 10 === 0) await new Promise(setImmediate);
  }
  let updates = 0;
  let last = second.sequence;
  for await (const { sequence, health } of call) {
    updates += 1;
    assert.ok(sequence > last);
    last = sequence;
    if (sequence < healthFeed.sequence) continue;
    assert.match(health.conditions[0].reason, `${String(CHANGES - 1)} `);
    break;
  }
  assert.ok(updates < CHANGES / 4, `${String(updates)} of ${String(CHANGES)} changes were kept for a slow reader`);
});

test('grpc.health.v1 follows readiness at once, without repeated statuses', async () => {
  const grpc = await start();
  const { healthFeed } = grpc.services;
  const client = grpc.connect();
  const all = watchStatus(client);
  const runtime = watchStatus(client, 'svc.v1.Runtime');
  assert.is((await next(all)).status, 'SERVING');
  assert.is((await next(runtime)).status, 'SERVING');
  assert.is((await next(watchStatus(client, 'nobody'))).status, 'SERVICE_UNKNOWN');
  healthFeed.changed();
  grpc.world.conditions = FAILED;
  healthFeed.changed();
  assert.is((await next(all)).status, 'NOT_SERVING');
  assert.is(runtime.read(), null, 'it tells of itself still');
});

test('many watches at once cause no listener-leak warning from Node', async () => {
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on('warning', onWarning);
  try {
    const grpc = await start();
    const client = grpc.connect();
    const watches = Array.from({ length: 20 }, () => watchStatus(client));
    for (const watch of watches) assert.is((await next(watch)).status, 'SERVING');
    for (const watch of watches) watch.cancel();
    await waitFor('their ends', () => grpc.world.ended.length === watches.length);
  } finally {
    process.off('warning', onWarning);
  }
  assert.equal(warnings, []);
});

test('close ends every stream with NOT_READY and is idempotent', async () => {
  const grpc = await start();
  const client = grpc.connect();
  const health = client.stream('Runtime/WatchHealth');
  await next(health);
  const watch = watchStatus(client);
  await next(watch);
  const ends = [failureOf(health), failureOf(watch)];
  await Promise.all([grpc.listener.close(), grpc.listener.close()]);
  for (const { status: code, reason, retrySeconds } of await Promise.all(ends)) {
    assert.equal([code, reason, retrySeconds], [status.UNAVAILABLE, 'NOT_READY', 1]);
  }
  await grpc.listener.close();
});

test('only our own addresses and allowed host names are admitted', async () => {
  const grpc = await start({ allowedHosts: ['friend.test'] });
  for (const authority of ['localhost', 'localhost:1', '[::1]:2', 'friend.test', grpc.address]) {
    assert.is((await grpc.connect(authority).unary('Runtime/GetHealth')).status, 'ready', authority);
  }
  for (const authority of ['evil.test', 'localhost.evil.test', '127.0.0.1.evil.test:80']) {
    const failure = await failureOf(grpc.connect(authority).unary('Runtime/GetHealth'));
    assert.equal([failure.status, failure.reason], [status.PERMISSION_DENIED, 'FORBIDDEN'], authority);
  }
});

test('with keys required, health checks are open to all, everything else needs a scope', async () => {
  const grpc = await start();
  const client = grpc.connect();
  const refusals = async (): Promise<(string | undefined)[]> => {
    const outcomes = ['GetHealth', 'ListModels', 'ListProviders'].map((name) =>
      client.unary(`Runtime/${name}`).then(
        () => undefined,
        (error: unknown) => readFailure(error as ServiceError).reason,
      ),
    );
    return await Promise.all(outcomes);
  };
  grpc.world.admits = null;
  assert.equal(await refusals(), ['UNAUTHORIZED', 'UNAUTHORIZED', 'UNAUTHORIZED']);
  assert.is((await failureOf(client.stream('Inference/Generate', REQUEST))).status, status.UNAUTHENTICATED);
  assert.is((await next(watchStatus(client))).status, 'SERVING');
  grpc.world.admits = 'inference';
  assert.equal(await refusals(), [undefined, undefined, 'FORBIDDEN']);
  grpc.world.admits = 'admin';
  assert.equal(await refusals(), [undefined, undefined, undefined]);
});

test('the caller reaches the backend', async () => {
  const grpc = await start();
  Object.assign(grpc.world, { admits: 'inference', key: 'laptop' });
  const client = grpc.connect();
  for await (const _ of client.stream('Inference/Generate', REQUEST));
  await client.unary('Inference/Embed', { input: [{ text: 'hi' }] });
  const laptop = { kind: 'key', name: 'laptop', address: '127.0.0.1', scope: 'inference' };
  assert.equal(grpc.backend.callers, [laptop, laptop]);
});

test('each call is counted once, by its method and the name of its status', async () => {
  const grpc = await start({
    async *script(_, { signal }) {
      yield START;
      yield text('x');
      throw await aborted(signal);
    },
  });
  const { ended } = grpc.world;
  const client = grpc.connect();
  await client.unary('Runtime/GetHealth');
  await failureOf(client.stream('Inference/Generate', { messages: [] }));
  // A client of the library would notice the deadline first and cancel.
  const session = await raw(grpc);
  const late = session.request({ ...HEADERS, 'grpc-timeout': '50m' }).on('error', () => undefined);
  late.write(PARTIAL);
  await once(late, 'response');
  session.destroy();
  const left = client.stream('Inference/Generate', REQUEST);
  left.on('error', () => undefined);
  await next(left);
  left.cancel();
  const watch = watchStatus(client);
  await next(watch);
  watch.cancel();
  await failureOf(grpc.connect('evil.test').unary('Runtime/ListModels'));
  grpc.world.admits = null;
  await failureOf(client.unary('Runtime/ListModels'));
  await waitFor('all seven', () => ended.length >= 7);
  assert.equal([...ended].sort(), [
    'grpc.health.v1.Health/Watch CANCELLED',
    'svc.v1.Inference/Generate CANCELLED',
    'svc.v1.Inference/Generate INVALID_ARGUMENT',
    'svc.v1.Runtime/GetHealth DEADLINE_EXCEEDED',
    'svc.v1.Runtime/GetHealth OK',
    'svc.v1.Runtime/ListModels PERMISSION_DENIED',
    'svc.v1.Runtime/ListModels UNAUTHENTICATED',
  ]);
});

test('every answer has the id of its request', async () => {
  const grpc = await start();
  const call = grpc.connect().stream('Inference/Generate', REQUEST);
  const [metadata] = (await once(call.resume(), 'metadata')) as [{ get(key: string): string[] }];
  const [id = ''] = metadata.get('x-request-id');
  assert.match(id, /^[0-9a-f]{32}$/);
  await waitFor('its log line', () => grpc.logged.some((line) => line['id'] === id && line['code'] === 0));
});

test.run();
