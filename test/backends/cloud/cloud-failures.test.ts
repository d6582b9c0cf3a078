/** The cloud backend against servers that refuse, fail, stall or cut their answers. */
import * as assert from 'uvu/assert';
import type { ErrorCode } from '../../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import { rejection } from '../../support/errors.ts';
import { makeGate, type Gate } from '../../support/gate.ts';
import { waitFor } from '../../support/wait.ts';
import { context } from '../conformance.ts';
import { textOf } from '../local-support.ts';
import { ask, chunk } from './cloud-support.ts';
import { answer, cloudSuite, finishOf, said } from './cloud-suite.ts';
import { HELLO } from './recorded-chat-completions.ts';
import { HELLO as RESPONSES_HELLO } from './recorded-responses.ts';
import { recorded, type Script } from './upstream.ts';

const test = cloudSuite('cloud backend, failures');

interface Refusal {
  readonly status?: number;
  readonly body: unknown;
  readonly headers?: Record<string, string>;
  readonly code: ErrorCode;
  readonly retryable?: boolean;
  readonly retryAfterSeconds?: number;
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  'a wrong key': { status: 401, body: said('bad key'), code: 'PROVIDER_AUTH' },
  'a key without permission': { status: 403, body: said('not you'), code: 'PROVIDER_AUTH' },
  'an unknown model': {
    status: 404,
    body: said('no such model', { code: 'model_not_found' }),
    code: 'MODEL_NOT_FOUND',
  },
  'an unknown model, as 400': { status: 400, body: said('?', { code: 'model_not_found' }), code: 'MODEL_NOT_FOUND' },
  'a path that does not exist': { status: 404, body: '<html>404</html>', code: 'MODEL_NOT_FOUND' },
  'a bad request': { status: 400, body: said('bad', { type: 'invalid_request_error' }), code: 'INVALID_REQUEST' },
  'a bad request, FastAPI': { status: 422, body: { detail: [{ msg: 'field required' }] }, code: 'INVALID_REQUEST' },
  'a prompt too long, by its code': {
    status: 400,
    body: said('too many', { type: 'invalid_request_error', code: 'context_length_exceeded' }),
    code: 'CONTEXT_OVERFLOW',
  },
  'a prompt too long, llama-server': {
    status: 400,
    body: said('the request exceeds the available context size', { code: 400, type: 'exceed_context_size_error' }),
    code: 'CONTEXT_OVERFLOW',
  },
  'a prompt too long, vLLM': {
    status: 400,
    body: {
      object: 'error',
      message: "This model's maximum context length is 4096 tokens.",
      type: 'BadRequestError',
      code: 400,
    },
    code: 'CONTEXT_OVERFLOW',
  },
  'a body too large': { status: 413, body: said('too large'), code: 'REQUEST_TOO_LARGE' },
  'too many requests': {
    status: 429,
    body: said('slow down'),
    headers: { 'retry-after': '7' },
    code: 'BUSY',
    retryAfterSeconds: 7,
  },
  'too many requests, retry-after in milliseconds': {
    status: 429,
    body: said('slow down', { code: 'rate_limit_exceeded' }),
    headers: { 'retry-after-ms': '250', 'retry-after': '9' },
    code: 'BUSY',
    retryAfterSeconds: 0.25,
  },
  'too many requests, no retry': {
    status: 429,
    body: said('slow down'),
    headers: { 'x-should-retry': 'false' },
    code: 'BUSY',
    retryable: false,
  },
  'a quota that is used up': {
    status: 429,
    body: said('pay', { code: 'insufficient_quota' }),
    code: 'PROVIDER_FAILED',
    retryable: false,
  },
  'no credit': { status: 402, body: said('pay'), code: 'PROVIDER_FAILED', retryable: false },
  'a timeout': { status: 408, body: said('late'), code: 'PROVIDER_FAILED', retryable: true },
  'a conflict': { status: 409, body: said('locked'), code: 'PROVIDER_FAILED', retryable: true },
  'a server error': { status: 500, body: said('oops'), code: 'PROVIDER_FAILED', retryable: true },
  'a server error, no retry': {
    status: 500,
    body: said('oops'),
    headers: { 'x-should-retry': 'false' },
    code: 'PROVIDER_FAILED',
    retryable: false,
  },
  'a drain': {
    status: 503,
    body: '',
    headers: { 'retry-after': '2' },
    code: 'PROVIDER_FAILED',
    retryable: true,
    retryAfterSeconds: 2,
  },
  'an overload': { status: 529, body: said('overloaded'), code: 'PROVIDER_FAILED', retryable: true },
  'a method that is not allowed': { status: 405, body: '', code: 'PROVIDER_FAILED', retryable: false },
  'an error with status 200': { body: said('no credit', { code: 402 }), code: 'PROVIDER_FAILED', retryable: false },
  'an error with status 200, MiniMax': {
    body: { base_resp: { status_code: 1004, status_msg: 'login fail' } },
    code: 'PROVIDER_AUTH',
  },
  'an empty answer': { body: {}, code: 'PROVIDER_FAILED', retryable: true },
  'invalid JSON': { body: '{"choices": [', code: 'PROVIDER_FAILED', retryable: true },
};
for (const [name, refusal] of Object.entries(REFUSALS)) {
  test(`refused: ${name}`, async ({ upstream, open }) => {
    upstream.script((turn) => turn.json(refusal.status ?? 200, refusal.body, refusal.headers));
    const error = await rejection(() => answer(open()), refusal.code, /^acme: /);
    if (refusal.retryable !== undefined) assert.is(error.retryable, refusal.retryable);
    assert.is(error.retryAfterSeconds, refusal.retryAfterSeconds);
    if (['PROVIDER_AUTH', 'MODEL_NOT_FOUND', 'CONTEXT_OVERFLOW'].includes(refusal.code)) assert.ok(error.hint);
  });
}

test('the hints name the command to run next', async ({ upstream, open }) => {
  const opened = open();
  upstream.script((turn) => turn.json(401, said('bad key')));
  const { hint: auth } = await rejection(() => answer(opened), 'PROVIDER_AUTH');
  assert.match(auth ?? '', /ACME_API_KEY.*svc provider set acme/);
  upstream.script((turn) => turn.json(404, said('no')));
  const { hint: model } = await rejection(() => answer(opened), 'MODEL_NOT_FOUND');
  assert.match(model ?? '', /svc provider models acme/);
});

/** Opened when the client has the first text. */
let heard: Gate;

/** Answers that break off after the first text. */
const CUTS: Readonly<Record<string, Script>> = {
  'an end without a finish': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    turn.end();
  },
  '[DONE] without a finish': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.event('[DONE]');
    turn.end();
  },
  'an end in the middle of a character': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.write(Buffer.from('data: {"choices":[{"delta":{"content":"世').subarray(0, -1));
    turn.end();
  },
  'a reset': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await heard.opened;
    turn.reset();
  },
  silence: (turn) => turn.event(chunk({ content: 'Hel' })),
  'an error': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.event({ error: { message: 'the GPU is gone', code: 500 } });
    turn.end();
  },
  'an error, vLLM': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.event({ object: 'error', message: 'the GPU is gone', type: 'InternalServerError', code: 500 });
    turn.end();
  },
  'invalid JSON': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.event('<html>');
    turn.end();
  },
  'a finish reason "error"': async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.event(chunk({}, 'error'));
    turn.end();
  },
};
for (const [name, script] of Object.entries(CUTS)) {
  test(`cut off: ${name}`, async ({ upstream, open }) => {
    heard = makeGate();
    upstream.script(script);
    const events: GenerateEvent[] = [];
    const error = await rejection(
      async () => {
        const { backend } = open({ idleTimeoutMs: 300 });
        for await (const event of backend.generate(ask(), context())) {
          events.push(event);
          if (event.type === 'text') heard.open();
        }
      },
      'PROVIDER_FAILED',
      /^acme: /,
    );
    assert.is(textOf(events), 'Hel');
    assert.not(events.some(({ type }) => type === 'finish'));
    assert.is(error.retryable, true);
    if (name === 'silence') await waitFor('the connection to be closed', () => upstream.connections() === 0);
  });
}

test('an error before any content is thrown before `start`, so that a fallback can still answer', async ({
  upstream,
  open,
}) => {
  upstream.script(async (turn) => {
    await turn.write(': PROCESSING\n\n');
    await turn.event(chunk({ role: 'assistant', content: '' }));
    await turn.event({ error: { message: 'slow down', code: 429 } });
    turn.end();
  });
  const events: GenerateEvent[] = [];
  await rejection(async () => {
    for await (const event of open().backend.generate(ask(), context())) events.push(event);
  }, 'BUSY');
  assert.equal(events, []);
});

test('the message of a provider reaches the caller but not the log, and never contains the key', async ({
  upstream,
  open,
}) => {
  const opened = open();
  upstream.script((turn) => {
    const { authorization } = turn.request.headers;
    const { content } = turn.request.body.messages[0];
    turn.json(400, said(`${String(authorization)} asked \u001b[31m${String(content)}\n\nagain`));
  });
  const error = await rejection(() => answer(opened, ask('a secret prompt')), 'INVALID_REQUEST');
  assert.not.match(error.message, /secret|sk-test/);
  assert.is(
    error.toRecord().message,
    'acme: the provider refuses the request (status 400): Bearer [key] asked [31ma secret prompt again',
  );
  assert.not.match(JSON.stringify(opened.log), /secret|sk-test/);
  assert.equal(
    opened.log.map(({ level }) => level),
    ['debug'],
    'clients cannot fill the log',
  );
  assert.not.match(JSON.stringify(opened.backend.record()), /secret|sk-test/);
});

test('a long error body is truncated', async ({ upstream, open }) => {
  upstream.script(async (turn) => {
    turn.head(500, { 'content-type': 'application/json' });
    while (!turn.isOver) await turn.write('x'.repeat(64 * 1024));
  });
  await rejection(() => answer(open()), 'PROVIDER_FAILED');
  assert.ok(upstream.written() < 500, String(upstream.written()));
});

test('an endless event is not buffered without bound', async ({ upstream, open }) => {
  upstream.script(async (turn) => {
    await turn.write('data: ');
    while (!turn.isOver) await turn.write('x'.repeat(256 * 1024));
  });
  await rejection(() => answer(open()), 'PROVIDER_FAILED', /an event longer than/);
});

const long = 'x'.repeat(1024 * 1024);
const endless: Readonly<Record<string, object>> = {
  text: { content: long },
  'white space': { content: ' '.repeat(long.length) },
  'arguments of a call without a name': { tool_calls: [{ index: 0, id: 'A', function: { arguments: long } }] },
};
for (const [name, delta] of Object.entries(endless)) {
  test(`an endless answer is not kept without bound: ${name}`, async ({ upstream, open }) => {
    upstream.script(async (turn) => {
      while (!turn.isOver) await turn.event({ choices: [{ index: 0, delta }] });
    });
    await rejection(() => answer(open()), 'PROVIDER_FAILED', /an answer longer than 67108864 characters/);
    assert.ok(upstream.written() < 200, String(upstream.written()));
  });
}

const NO_EFFORT: Readonly<Record<string, string>> = {
  'Chat Completions': 'Unrecognized request argument supplied: reasoning_effort',
  Responses: "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
};
for (const [name, message] of Object.entries(NO_EFFORT)) {
  test(`an optional effort that the provider refuses is left out from then on: ${name}`, async ({ upstream, open }) => {
    const isResponses = name === 'Responses';
    const opened = open(isResponses ? { api: 'responses' } : {});
    const hasEffort = (body: any): boolean => (isResponses ? body.reasoning : body.reasoning_effort) !== undefined;
    upstream.script((turn) => {
      if (hasEffort(turn.request.body)) turn.json(400, said(message));
      else return recorded(isResponses ? RESPONSES_HELLO : HELLO)(turn);
    });
    const optional = { ...ask(), reasoning_effort: 'low', reasoning_optional: true } as const;
    for (let answers = 0; answers < 2; answers++) assert.is(finishOf(await answer(opened, optional)).reason, 'stop');
    assert.equal(
      upstream.asked.map(({ body }) => hasEffort(body)),
      [true, false, false],
    );
    assert.is(finishOf(await answer(opened, { ...optional, model: 'other' })).reason, 'stop');
    assert.is(upstream.asked.length, 5, 'another model may support it');
    await rejection(() => answer(opened, { ...ask(), reasoning_effort: 'low' }), 'INVALID_REQUEST');
    assert.is(upstream.asked.length, 6);
  });
}

test('another refusal, and one of an entry of the config, with an optional effort', async ({ upstream, open }) => {
  const optional = { ...ask(), reasoning_effort: 'low', reasoning_optional: true } as const;
  upstream.script((turn) => turn.json(400, said('too many images')));
  await rejection(() => answer(open(), optional), 'INVALID_REQUEST');
  assert.is(upstream.asked.length, 1);
  upstream.script(recorded(HELLO));
  const quirks = { unsupported: ['reasoning_effort'] };
  assert.is(finishOf(await answer(open({ quirks }), optional)).reason, 'stop');
});

test.run();
