import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SvcError, type ErrorCode } from '../../src/protocol/errors.ts';
import { makeGate } from '../support/gate.ts';
import { startStopwatch, type Stopwatch } from '../support/stopwatch.ts';
import { waitFor } from '../support/wait.ts';
import { ask, open, type Answer } from './ask.ts';
import { aborted, FINISH, hello, START, startScripted, text, type ScriptedListener } from './scripted.ts';

const PATH = '/v1/chat/completions';
const MESSAGES = [{ role: 'user', content: 'hi' }];
const HEARTBEAT_MS = 200;

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({ limits: { heartbeatMs: HEARTBEAT_MS } });
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
});

const chat = (fields: object = {}): Promise<Answer> => ask(listener, PATH, { body: { messages: MESSAGES, ...fields } });

/** Parsed values of the `data:` lines; `[DONE]` as a string. */
function events(body: string): any[] {
  return body
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => (event === 'data: [DONE]' ? '[DONE]' : JSON.parse(event.slice(6))));
}

const USAGE = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9, prompt_tokens_details: { cached_tokens: 3 } };

test('a whole answer', async () => {
  const askedAt = Math.floor(Date.now() / 1000);
  const answer = await chat();
  assert.is(answer.status, 200);
  const { id, created, ...rest } = answer.json();
  assert.is(id, `chatcmpl-${String(answer.headers['x-request-id'])}`);
  assert.ok(created >= askedAt && created <= Date.now() / 1000, String(created));
  assert.equal(rest, {
    model: 'tiny',
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'hello world', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: USAGE,
    timings: FINISH.timings,
    provider: 'local',
    route: {
      requested: 'default',
      chosen: 'local',
      attempts: [{ provider: 'local', model: 'tiny', outcome: 'ok', reason: null }],
    },
  });
});

test('a streamed answer: role first, finish reason last, then [DONE]', async () => {
  const answer = await chat({ stream: true });
  assert.is(answer.status, 200);
  assert.is(answer.headers['content-type'], 'text/event-stream; charset=utf-8');
  assert.is(answer.headers['cache-control'], 'no-cache, no-transform');
  assert.ok(answer.complete);
  const all = events(answer.text);
  assert.is(all.pop(), '[DONE]');
  assert.equal(
    all.map(({ choices }) => choices[0]),
    [
      { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
      { index: 0, delta: { content: 'hello ' }, logprobs: null, finish_reason: null },
      { index: 0, delta: { content: 'world' }, logprobs: null, finish_reason: null },
      { index: 0, delta: {}, logprobs: null, finish_reason: 'stop' },
    ],
  );
  assert.equal(all.at(-1).timings, FINISH.timings);
  for (const chunk of all) {
    assert.equal([chunk.id, chunk.object, chunk.model], [all[0].id, 'chat.completion.chunk', 'tiny']);
    assert.not.ok('usage' in chunk, 'not asked for');
  }
});

test('include_usage: null in every chunk, and one more chunk without choices', async () => {
  const all = events((await chat({ stream: true, stream_options: { include_usage: true } })).text);
  assert.is(all.pop(), '[DONE]');
  const last = all.pop();
  assert.equal(last.choices, []);
  assert.equal(last.usage, USAGE);
  for (const chunk of all) assert.is(chunk.usage, null);
});

test('finish reasons; an answer without text has all its parts', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield { ...FINISH, reason: 'length' };
  };
  assert.is((await chat()).json().choices[0].finish_reason, 'length');
  const all = events((await chat({ stream: true })).text);
  assert.equal(
    all.slice(0, 2).map(({ choices }) => choices[0].delta),
    [{ role: 'assistant', content: '' }, {}],
  );
  assert.is(all[1].choices[0].finish_reason, 'length');
  assert.is(all[2], '[DONE]');
});

test('any text arrives unchanged', async () => {
  const pieces = ['\n\ndata: [DONE]\n\n', '\u2028"\\', '🦙', '\r\n', '\u0000', '\ud800', ': x'];
  listener.backend.script = async function* () {
    yield START;
    for (const piece of pieces) yield text(piece);
    yield FINISH;
  };
  assert.is((await chat()).json().choices[0].message.content, pieces.join(''));
  const all = events((await chat({ stream: true })).text);
  assert.equal(
    all.slice(1, -2).map(({ choices }) => choices[0].delta.content),
    pieces,
  );
});

const statuses: readonly [ErrorCode, number, string, string, 'yes' | 'no'][] = [
  ['MODEL_NOT_FOUND', 404, 'invalid_request_error', 'model_not_found', 'no'],
  ['MODEL_INVALID', 422, 'invalid_request_error', 'model_invalid', 'no'],
  ['BUSY', 429, 'rate_limit_error', 'rate_limit_exceeded', 'yes'],
  ['ENGINE_CRASHED', 502, 'server_error', 'engine_crashed', 'yes'],
  ['ENGINE_UNAVAILABLE', 503, 'server_error', 'engine_unavailable', 'no'],
  ['NOT_READY', 503, 'server_error', 'not_ready', 'yes'],
  ['TIMEOUT', 504, 'server_error', 'timeout', 'yes'],
  ['OUT_OF_MEMORY', 507, 'server_error', 'out_of_memory', 'no'],
];

test('an error before the first text is an HTTP status, streamed or not, even after `start`', async () => {
  for (const [code, status, type, wireCode, retry] of statuses) {
    for (const stream of [false, true]) {
      for (const started of [false, true]) {
        listener.backend.script = async function* () {
          if (started) yield START;
          throw new SvcError(code, 'what happened', { hint: 'what to do', param: 'model' });
        };
        const answer = await chat({ stream });
        const id = answer.headers['x-request-id'];
        assert.is(answer.status, status);
        assert.equal(answer.json(), {
          error: { message: 'what happened', type, param: 'model', code: wireCode, hint: 'what to do', id },
        });
        assert.is(answer.headers['retry-after'], code === 'BUSY' || code === 'NOT_READY' ? '1' : undefined);
        assert.is(answer.headers['x-should-retry'], retry === 'no' && status >= 500 ? 'false' : undefined);
      }
    }
  }
});

test('Retry-After has the value of the backend, in whole seconds', async () => {
  listener.backend.script = async function* () {
    throw new SvcError('PROVIDER_FAILED', 'x', { retryAfterSeconds: 2.1 });
  };
  assert.is((await chat()).headers['retry-after'], '3');
});

test('an internal error is a 500 with a neutral message, and is logged with its stack', async () => {
  listener.backend.script = async function* () {
    throw new TypeError('the-secret-prompt is not a function');
  };
  const answer = await chat({ stream: true });
  assert.is(answer.status, 500);
  assert.is(answer.json().error.code, 'internal');
  assert.not.ok(answer.text.includes('the-secret-prompt'));
  const line = listener.logged.find(({ id, level }) => id === answer.json().error.id && level === 'error');
  assert.match(JSON.stringify(line), /chat-completions\.test/);
});

test('an error after the first text is the last event, and the stream is cut, never ended', async () => {
  const script = async function* (): AsyncGenerator<typeof START | ReturnType<typeof text>> {
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  listener.backend.script = script;
  const answer = await chat({ stream: true });
  assert.is(answer.status, 200);
  assert.not.ok(answer.complete);
  const all = events(answer.text);
  assert.is(all.length, 3);
  assert.equal(all.at(-1), {
    error: {
      message: 'the engine is gone',
      type: 'server_error',
      param: null,
      code: 'engine_crashed',
      id: answer.headers['x-request-id'],
    },
  });
  assert.is(
    listener.logged.filter(({ id, level }) => id === answer.headers['x-request-id'] && level === 'error').length,
    1,
  );

  const whole = await chat();
  assert.is(whole.status, 502, 'a whole answer has not begun');
  assert.ok(whole.complete);
});

test('an answer without a finish event, or cancelled, is an error', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('half');
  };
  assert.is((await chat()).status, 502);
  assert.not.ok((await chat({ stream: true })).complete);

  listener.backend.script = async function* () {
    yield START;
    yield text('half');
    yield { ...FINISH, reason: 'cancelled' };
  };
  assert.is((await chat()).status, 499);
  const cancelled = await chat({ stream: true });
  assert.not.ok(cancelled.complete);
  assert.not.ok(cancelled.text.includes('[DONE]'));
});

test('comments keep a silent stream alive; errors are then sent as events', async () => {
  const crash = makeGate();
  listener.backend.script = async function* () {
    await crash.opened;
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  const from = performance.now();
  const res = await open(listener, PATH, { body: { messages: MESSAGES, stream: true } });
  assert.is(res.statusCode, 200);
  let seen = '';
  res.setEncoding('utf8').on('data', (piece: string) => (seen += piece));
  const closed = new Promise((resolve) => res.on('error', () => undefined).once('close', resolve));
  const beats = (): number => seen.match(/^: waiting\n\n/gm)?.length ?? 0;
  await waitFor('three comments', () => beats() >= 3);
  assert.ok(performance.now() - from >= beats() * HEARTBEAT_MS - 50, `${String(beats())} came too soon`);
  crash.open();
  await closed;
  assert.is(events(seen)[0].error.code, 'engine_crashed');
  assert.not.ok(res.complete);

  listener.backend.script = async function* () {
    yield START;
    for (let i = 0; i < 12; i += 1) {
      yield text('x');
      await sleep(HEARTBEAT_MS / 8);
    }
    yield FINISH;
  };
  const lively = await chat({ stream: true });
  assert.not.ok(lively.text.includes(': waiting'), 'text is a sign of life too');
  assert.ok(lively.complete);
});

test('tokens are sent at once, not when a buffer is full', async () => {
  const next = new EventTarget();
  listener.backend.script = async function* (_, { signal }) {
    yield START;
    for (;;) {
      yield text('tick');
      await once(next, 'go', { signal });
    }
  };
  const res = await open(listener, PATH, { body: { messages: MESSAGES, stream: true } });
  res.setEncoding('utf8');
  for (let i = 0; i < 5; i += 1) {
    const [chunk] = (await once(res, 'data')) as [string];
    assert.match(chunk, /"content":"tick"/);
    next.dispatchEvent(new Event('go'));
  }
  res.destroy();
});

test('a client that disconnects aborts the generation at once: queued, streamed or whole', async () => {
  for (const stream of [true, false]) {
    for (const started of [true, false]) {
      const taken: Stopwatch[] = [];
      let took: number | undefined;
      let isWorking = false;
      let reason: unknown;
      listener.backend.script = async function* (_, { signal }) {
        if (started) {
          yield START;
          yield text('x');
        }
        isWorking = true;
        reason = await aborted(signal);
        took = taken[0]?.ms();
        throw reason;
      };
      const gone = new AbortController();
      const request = fetch(listener.url + PATH, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: MESSAGES, stream }),
        signal: gone.signal,
      });
      request.then((res) => res.text()).catch(() => undefined);
      await waitFor('the generation', () => isWorking);
      taken.push(startStopwatch());
      gone.abort();
      const ms = await waitFor('the abort', () => took);
      assert.ok(ms < 500, `${ms.toFixed(1)} ms`);
      assert.is((reason as SvcError).code, 'CANCELLED');
      await waitFor('the end', () => listener.router.active + listener.router.waiting === 0);
    }
  }
});

test('a client that reads slowly gets everything, with back-pressure on the backend', async () => {
  let produced = 0;
  const piece = 'x'.repeat(64 * 1024);
  listener.backend.script = async function* () {
    yield START;
    for (; produced < 400; produced += 1) yield text(piece);
    yield FINISH;
  };
  const sockets: Socket[] = [];
  listener.server.on('connection', (socket: Socket) => sockets.push(socket));
  const res = await open(listener, PATH, { body: { messages: MESSAGES, stream: true } });
  // Nothing moves any more: neither this process nor the kernel takes another piece.
  let early = -1;
  await waitFor('the buffers to be full', async () => {
    early = produced;
    for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate);
    return early === produced && (produced === 400 || sockets.some(({ writableNeedDrain }) => writableNeedDrain));
  });
  assert.ok(early < 200, `${String(early)} pieces of 400 were produced for a reader that reads nothing`);
  let length = 0;
  for await (const chunk of res) length += (chunk as Buffer).length;
  assert.ok(res.complete);
  assert.is(produced, 400);
  assert.ok(length > 400 * piece.length);
});

test('a model is named by id or alias, never by a file path', async () => {
  for (const model of ['file:/etc/passwd', 'file:x']) {
    const answer = await chat({ model });
    assert.is(answer.status, 404);
    assert.equal([answer.json().error.code, answer.json().error.param], ['model_not_found', 'model']);
  }
  const before = listener.backend.requests.length;
  await chat({ model: 'local/file:/etc/passwd' });
  assert.is(
    listener.backend.requests[before]?.model,
    'local/file:/etc/passwd',
    'the backend does not take it for a file',
  );
});

test('the list of models, and one of them by id or alias', async () => {
  const model = {
    id: 'tiny',
    object: 'model',
    created: 1793491200,
    owned_by: 'svc',
    kind: 'local',
    max_model_len: 4096,
    capabilities: ['chat'],
    capabilities_tried: true,
  };
  assert.equal((await ask(listener, '/v1/models')).json(), { object: 'list', data: [model] });
  for (const name of ['tiny', 'small', 'org%2Ftiny', 'org/tiny', 'tiny/', 'default']) {
    assert.equal((await ask(listener, `/v1/models/${name}`)).json(), model, name);
  }
  for (const name of ['huge', 'tiny//', '%ff', '..%2F..%2Fetc%2Fpasswd', 'file:%2Fmodels%2Ftiny.gguf']) {
    const answer = await ask(listener, `/v1/models/${name}`);
    assert.is(answer.status, 404, name);
    assert.is(answer.json().error.type, 'invalid_request_error');
  }
});

test('an unknown path is 404 in the error format of its API', async () => {
  assert.is((await ask(listener, '/v1/nothing')).json().error.type, 'invalid_request_error');
  assert.is((await ask(listener, '/v1')).json().error.code, 'not_found');
  for (const path of [
    '//',
    '/v1/runtime',
    '/v1/runtime/x',
    '/v10',
    '/control/status',
    '/livez//',
    '//livez',
    '/LIVEZ',
    'http://localhost/livez',
  ]) {
    const answer = await ask(listener, path);
    assert.is(answer.status, 404, path);
    assert.equal(answer.json().error.code, 'NOT_FOUND', path);
  }
});

test('the prompt appears in no log line', () => {
  assert.not.ok(JSON.stringify(listener.logged).includes('"hi"'));
});

test.run();
