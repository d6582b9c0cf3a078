/** Our messages, errors, cut streams and models as Anthropic's client sees them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import Anthropic, {
  type APIError,
  AuthenticationError,
  BadRequestError,
  ContentTooLargeError,
  GatewayTimeoutError,
  InternalServerError,
  NotFoundError,
  OverloadedError,
  PermissionDeniedError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import { SvcError, type ErrorCode } from '../../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import { anthropicAt, anthropicFailure, paramOf } from '../../support/anthropic.ts';
import { waitFor } from '../../support/wait.ts';
import { ask } from '../ask.ts';
import { aborted, FINISH, hello, START, startScripted, text, TINY, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
let client: Anthropic;
test.before(async () => {
  listener = await startScripted();
  client = anthropicAt(listener.url);
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
  listener.backend.requests.length = 0;
  listener.world.admits = 'admin';
});

const BODY = { model: 'tiny', max_tokens: 50, messages: [{ role: 'user' as const, content: 'hi' }] };
const VERSION = { 'anthropic-version': '2023-06-01' };

function failWith(code: ErrorCode): void {
  listener.backend.script = async function* () {
    throw new SvcError(code, 'what happened', { param: 'model', hint: 'what to do' });
  };
}

test('a whole message with its request id', async () => {
  const { data, request_id } = await client.messages.create(BODY).withResponse();
  assert.equal(data.content, [{ type: 'text', text: 'hello world' }]);
  assert.equal([data.model, data.stop_reason, data.role], ['tiny', 'end_turn', 'assistant']);
  assert.equal([data.usage.input_tokens, data.usage.cache_read_input_tokens], [4, 3]);
  assert.is(`msg_${String(request_id)}`, data.id);
  assert.equal(listener.backend.requests[0]?.messages, BODY.messages);
});

test('a stream works with iteration and with the assembling helper of the client', async () => {
  let whole = '';
  for await (const event of await client.messages.create({ ...BODY, stream: true })) {
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') whole += event.delta.text;
  }
  assert.is(whole, 'hello world');
  const stream = client.messages.stream(BODY);
  const final = await stream.finalMessage();
  assert.is(await stream.finalText(), 'hello world');
  const { content, stop_reason, usage } = await client.messages.create(BODY);
  assert.equal([final.content, final.stop_reason, final.usage], [content, stop_reason, usage]);
});

test('streamed thoughts and calls are assembled by the client', async () => {
  const events: readonly GenerateEvent[] = [
    START,
    { type: 'reasoning', text: 'Hm.' },
    text('Looking.'),
    { type: 'tool_call', index: 0, id: 'a', name: 'look', arguments: '' },
    { type: 'tool_call', index: 0, arguments: '{"at": {"x"' },
    { type: 'tool_call', index: 0, arguments: ': 1}}' },
    { ...FINISH, reason: 'tool_calls' },
  ];
  listener.backend.script = async function* () {
    yield* events;
  };
  const final = await client.messages.stream(BODY).finalMessage();
  assert.is(final.stop_reason, 'tool_use');
  assert.equal(
    final.content.map((block) => ({ ...block })),
    [
      { type: 'thinking', thinking: 'Hm.', signature: 'svc' },
      { type: 'text', text: 'Looking.' },
      { type: 'tool_use', id: 'a', name: 'look', input: { at: { x: 1 } } },
    ],
  );
});

test('hidden thoughts that the client sends back reach the model, from whole and streamed messages', async () => {
  const hidden = { ...BODY, thinking: { type: 'adaptive', display: 'omitted' } } as const;
  const thoughtful: readonly GenerateEvent[] = [
    START,
    { type: 'reasoning', text: 'Hm, ' },
    { type: 'reasoning', text: 'näher.' },
    { type: 'tool_call', index: 0, id: 'a', name: 'look', arguments: '{}' },
    { ...FINISH, reason: 'tool_calls' },
  ];
  listener.backend.script = async function* () {
    yield* thoughtful;
  };
  for (const { content } of [
    await client.messages.create(hidden),
    await client.messages.stream(hidden).finalMessage(),
  ]) {
    const [block] = content;
    assert.ok(block?.type === 'thinking' && block.thinking === '');
    const result = {
      role: 'user' as const,
      content: [{ type: 'tool_result' as const, tool_use_id: 'a', content: 'x' }],
    };
    await client.messages.create({ ...hidden, messages: [...BODY.messages, { role: 'assistant', content }, result] });
    assert.is(listener.backend.requests.at(-1)?.messages[1]?.reasoning, 'Hm, näher.');
  }
});

test('a limit of 0 tokens computes the prompt and answers with nothing, whole and streamed', async () => {
  const warm = { ...BODY, max_tokens: 0 };
  const scripts: readonly (readonly GenerateEvent[])[] = [
    [START, { type: 'reasoning', text: 'Hm.' }, FINISH],
    [START, text('x'), { ...FINISH, reason: 'length' }],
    [START, { type: 'tool_call', index: 0, id: 'a', name: 'look', arguments: '' }, { ...FINISH, reason: 'tool_calls' }],
    [START, { ...FINISH, stop_string: 'END' }],
  ];
  for (const events of scripts) {
    listener.backend.script = async function* () {
      yield* events;
    };
    for (const message of [await client.messages.create(warm), await client.messages.stream(warm).finalMessage()]) {
      assert.equal([message.content, message.stop_reason, message.stop_sequence], [[], 'max_tokens', null]);
      assert.equal([message.usage.output_tokens, message.usage.input_tokens], [0, 4]);
    }
  }
  assert.is(listener.backend.requests.at(-1)?.max_tokens, 1);
});

test('tokens are counted without an answer', async () => {
  const { max_tokens: _, ...prompt } = BODY;
  const { input_tokens } = await client.messages.countTokens({ ...prompt, system: 'Be brief.' });
  assert.is(input_tokens, 7);
  assert.equal(listener.backend.tokenizeRequests.at(-1), {
    model: 'tiny',
    messages: [{ role: 'system', content: 'Be brief.' }, ...prompt.messages],
    sampling: {},
    stop: [],
  });
  assert.is(listener.backend.requests.length, 0);
  const error = await anthropicFailure(client.messages.countTokens({ ...prompt, messages: [] }));
  assert.is(paramOf(error), 'messages');
});

test('each error is of the class of the client, with type, message, field and id', async () => {
  const classes: readonly [ErrorCode, new (...args: never[]) => APIError, number, string][] = [
    ['INVALID_REQUEST', BadRequestError, 400, 'invalid_request_error'],
    ['UNAUTHORIZED', AuthenticationError, 401, 'authentication_error'],
    ['FORBIDDEN', PermissionDeniedError, 403, 'permission_error'],
    ['MODEL_NOT_FOUND', NotFoundError, 404, 'not_found_error'],
    ['CONTEXT_OVERFLOW', BadRequestError, 400, 'invalid_request_error'],
    ['REQUEST_TOO_LARGE', ContentTooLargeError, 413, 'request_too_large'],
    ['BUSY', RateLimitError, 429, 'rate_limit_error'],
    ['INTERNAL', InternalServerError, 500, 'api_error'],
    ['ENGINE_CRASHED', InternalServerError, 502, 'api_error'],
    ['TIMEOUT', GatewayTimeoutError, 504, 'timeout_error'],
    ['NOT_READY', OverloadedError, 529, 'overloaded_error'],
  ];
  for (const [code, kind, status, type] of classes) {
    failWith(code);
    for (const stream of [false, true]) {
      const error = await anthropicFailure(client.messages.create({ ...BODY, stream }));
      assert.instance(error, kind, code);
      assert.equal([error.status, error.type, paramOf(error)], [status, type, 'model']);
      assert.is(error.errorCode, code.toLowerCase());
      assert.match(String(error.apiMessage), /what happened; what to do$/);
      assert.match(String(error.requestID), /^[0-9a-f]{32}$/);
      const body = error.error as { readonly type: string; readonly request_id: string };
      assert.equal([body.type, body.request_id], ['error', error.requestID]);
      if (code === 'CONTEXT_OVERFLOW') assert.match(String(error.apiMessage), /^prompt is too long: /);
    }
  }
});

test('a prompt that is too long is refused in the words that coding agents look for', async () => {
  // Claude Code's expression.
  const sizes = /prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)/i;
  for (const is_minimum of [false, true]) {
    listener.backend.script = async function* () {
      const overflow = { prompt_tokens: 2048, is_minimum, context_length: 2048 };
      throw new SvcError('CONTEXT_OVERFLOW', 'what happened', { hint: 'what to do', overflow });
    };
    const { apiMessage } = await anthropicFailure(client.messages.create(BODY));
    const least = is_minimum ? 'at least ' : '';
    assert.is(apiMessage, `prompt is too long: ${least}2048 tokens > 2047 maximum; what to do`);
    assert.equal(sizes.exec(String(apiMessage))?.slice(1), ['2048', '2047']);
  }
});

test('errors before the handler have the same form', async () => {
  listener.world.admits = null;
  assert.instance(await anthropicFailure(client.messages.create(BODY)), AuthenticationError);
  assert.instance(await anthropicFailure(client.models.list()), AuthenticationError);
  listener.world.admits = 'admin';
  const missing = await anthropicFailure(client.messages.create({ ...BODY, max_tokens: undefined as never }));
  assert.instance(missing, BadRequestError);
  assert.equal([paramOf(missing), missing.apiMessage], ['max_tokens', 'max_tokens is required']);
  const typeOf = async (...args: Parameters<typeof ask>): Promise<unknown[]> => {
    const { status, text: body } = await ask(...args);
    return [status, (JSON.parse(body) as { error: { type?: unknown } }).error.type];
  };
  const to = { port: listener.port };
  assert.equal(await typeOf(to, '/v1/messages/batches', { body: {} }), [404, 'not_found_error']);
  assert.equal(await typeOf(to, '/v1/messages'), [405, 'invalid_request_error']);
  const json = { 'content-type': 'application/json' };
  assert.equal(await typeOf(to, '/v1/messages', { headers: json, method: 'POST', body: '{' }), [
    400,
    'invalid_request_error',
  ]);
  assert.equal(
    await typeOf(to, '/v1/messages', { headers: { ...json, 'content-length': '99999999' }, method: 'POST' }),
    [413, 'request_too_large'],
  );
});

test('the client retries retryable errors only', async () => {
  const patient = new Anthropic({ baseURL: listener.url, apiKey: 'none', maxRetries: 1 });
  const attempts = async (code: ErrorCode): Promise<number> => {
    failWith(code);
    listener.backend.requests.length = 0;
    await anthropicFailure(patient.messages.create(BODY));
    return listener.backend.requests.length;
  };
  assert.is(await attempts('ENGINE_CRASHED'), 2);
  for (const code of ['ENGINE_UNAVAILABLE', 'OUT_OF_MEMORY', 'MODEL_NOT_FOUND', 'CONTEXT_OVERFLOW'] as const)
    assert.is(await attempts(code), 1, code);
});

test('an error in the middle of a stream is thrown after the text before it', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  let whole = '';
  const error = await anthropicFailure(
    (async () => {
      for await (const event of await client.messages.create({ ...BODY, stream: true }))
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') whole += event.delta.text;
    })(),
  );
  assert.equal([whole, error.type, error.errorCode], ['half', 'api_error', 'engine_crashed']);
  assert.match(error.message, /the engine is gone/);
  await anthropicFailure(client.messages.stream(BODY).finalMessage());
});

test('an error after a heartbeat is an event, and the stream has no end', async () => {
  const patient = await startScripted({
    limits: { heartbeatMs: 5 },
    script: async function* (_, { signal }) {
      yield START;
      await aborted(AbortSignal.any([signal, late.signal]));
      throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
    },
  });
  const late = new AbortController();
  try {
    const response = await fetch(`${patient.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...BODY, stream: true }),
    });
    assert.is(response.status, 200);
    late.abort();
    let seen = '';
    let isCut = false;
    try {
      for await (const piece of response.body ?? []) seen += Buffer.from(piece as Uint8Array).toString();
    } catch {
      isCut = true;
    }
    assert.ok(isCut, 'the connection is cut');
    assert.match(seen, /^event: ping\ndata: \{"type":"ping"\}\n\n/);
    assert.match(seen, /\nevent: error\ndata: \{"type":"error","error":\{"type":"api_error"[^\n]*\}\n\n$/);
    assert.not.match(seen, 'message_stop');
  } finally {
    await patient.stop();
  }
});

test('an abort of the client ends the generation', async () => {
  let reason: unknown;
  listener.backend.script = async function* (_, { signal }) {
    yield START;
    yield text('x');
    reason = await aborted(signal);
  };
  const stream = await client.messages.create({ ...BODY, stream: true });
  for await (const event of stream) if (event.type === 'content_block_delta') break;
  await waitFor('the abort', () => reason !== undefined);
  assert.is((reason as SvcError).code, 'CANCELLED');
});

test('models: pages, and one by id or alias', async () => {
  const records = ['a', 'b', 'c', 'd', 'e'].map((id) => ({
    ...TINY,
    id,
    aliases: [`${id}-alias`],
    default: id === 'a',
  }));
  const { services } = listener;
  const whole = services.models;
  Object.assign(services, { models: () => Promise.resolve(records) });
  try {
    const idsOf = async (query: Anthropic.ModelListParams): Promise<string[]> => {
      const ids: string[] = [];
      for await (const { id } of client.models.list(query)) ids.push(id);
      return ids;
    };
    assert.equal(await idsOf({ limit: 2 }), ['a', 'b', 'c', 'd', 'e']);
    assert.equal(await idsOf({ limit: 2, after_id: 'b' }), ['c', 'd', 'e']);
    const page = await client.models.list({ limit: 2, before_id: 'd' });
    assert.equal(
      [page.data.map(({ id }) => id), page.first_id, page.last_id, page.has_more],
      [['b', 'c'], 'b', 'c', true],
    );
    const model = await client.models.retrieve('c-alias');
    assert.equal(
      [model.id, model.type, model.max_input_tokens, model.created_at],
      ['c', 'model', 4096, TINY.modified_at],
    );
    assert.is((await client.models.retrieve('default')).id, 'a');
    for (const [query, param] of [
      [{ limit: 0 }, 'limit'],
      [{ limit: 1001 }, 'limit'],
      [{ after_id: 'x' }, 'after_id'],
      [{ before_id: 'x' }, 'before_id'],
    ] as const)
      assert.is(paramOf(await anthropicFailure(client.models.list(query))), param);
    const error = await anthropicFailure(client.models.retrieve('x'));
    assert.instance(error, NotFoundError);
    assert.is(error.type, 'not_found_error');
  } finally {
    Object.assign(services, { models: whole });
  }
});

test('other clients get models in their own form', async () => {
  const bodyOf = async (path: string, headers = {}): Promise<Record<string, unknown>> =>
    JSON.parse((await ask({ port: listener.port }, path, { headers })).text) as Record<string, unknown>;
  assert.is((await bodyOf('/v1/models'))['object'], 'list');
  assert.is((await bodyOf('/v1/models', VERSION))['object'], undefined);
  assert.is((await bodyOf('/v1/models/x'))['type'], undefined);
  assert.is((await bodyOf('/v1/models/x', VERSION))['type'], 'error');
});

test.run();
