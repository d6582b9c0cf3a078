/** Our answers, errors and cut streams as the official client sees them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { APIError } from 'openai';
import OpenAI, { BadRequestError, InternalServerError, NotFoundError, RateLimitError } from 'openai';
import { SvcError, type ErrorCode, type Overflow } from '../../src/protocol/errors.ts';
import { given } from '../../src/protocol/given.ts';
import { waitFor } from '../support/wait.ts';
import { openAiAt } from '../support/openai.ts';
import { failure } from './api-failure.ts';
import { aborted, FINISH, hello, START, startScripted, text, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before(async () => {
  listener = await startScripted();
  client = openAiAt(listener.url);
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
  listener.backend.requests.length = 0;
});

const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'hi' }];

function failWith(code: ErrorCode): void {
  listener.backend.script = async function* () {
    throw new SvcError(code, 'what happened', { param: 'model', hint: 'what to do' });
  };
}

test('a whole answer with its request id', async () => {
  const { data, request_id } = await client.chat.completions.create({ model: 'tiny', messages }).withResponse();
  assert.is(data.choices[0]?.message.content, 'hello world');
  assert.is(data.usage?.prompt_tokens_details?.cached_tokens, 3);
  assert.is(`chatcmpl-${String(request_id)}`, data.id);
});

test('a stream works with iteration and with the assembling helper of the client', async () => {
  const stream = await client.chat.completions.create({
    model: 'tiny',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let whole = '';
  let total: number | undefined;
  for await (const chunk of stream) {
    whole += chunk.choices[0]?.delta.content ?? '';
    total = chunk.usage?.total_tokens ?? total;
  }
  assert.equal([whole, total], ['hello world', 9]);

  const final = await client.chat.completions.stream({ model: 'tiny', messages }).finalChatCompletion();
  assert.is(final.choices[0]?.message.content, 'hello world');
  assert.is(final.choices[0]?.message.role, 'assistant');
  assert.is(final.choices[0]?.finish_reason, 'stop');
});

test('errors arrive as classes of the client, with our message, code, param and id', async () => {
  const classes: readonly [ErrorCode, new (...args: never[]) => APIError, string][] = [
    ['INVALID_REQUEST', BadRequestError, 'invalid_request'],
    ['MODEL_NOT_FOUND', NotFoundError, 'model_not_found'],
    ['BUSY', RateLimitError, 'rate_limit_exceeded'],
    ['ENGINE_CRASHED', InternalServerError, 'engine_crashed'],
    ['CONTEXT_OVERFLOW', BadRequestError, 'context_length_exceeded'],
  ];
  for (const [code, kind, wireCode] of classes) {
    failWith(code);
    for (const stream of [false, true]) {
      const error = await failure(client.chat.completions.create({ model: 'tiny', messages, stream }));
      assert.instance(error, kind);
      assert.equal([error.code, error.param], [wireCode, 'model']);
      assert.match(error.message, /what happened/);
      assert.match(String(error.requestID), /^[0-9a-f]{32}$/);
    }
  }
});

test('a prompt that is too long is refused in the words that agents look for', async () => {
  const sizes = { prompt_tokens: 3638, is_minimum: false, context_length: 2048 };
  const messageOf = async (overflow?: Overflow): Promise<string> => {
    listener.backend.script = async function* () {
      throw new SvcError('CONTEXT_OVERFLOW', 'input[1] has 602 tokens', given({ overflow }));
    };
    const { status, message } = await failure(client.chat.completions.create({ model: 'tiny', messages }));
    assert.is(status, 400);
    return message;
  };
  // LangChain.js reads the first half, LiteLLM the second.
  const words = "400 the prompt exceeds the context window: this model's maximum context length is 2048 tokens, ";
  assert.is(await messageOf(sizes), `${words}and the prompt has 3638, plus one for the answer`);
  assert.match(await messageOf({ ...sizes, is_minimum: true }), /the prompt has at least 3638, plus one for/);
  assert.is(await messageOf(), '400 the prompt exceeds the context window: input[1] has 602 tokens');
});

test('the client retries retryable errors only', async () => {
  const patient = new OpenAI({ baseURL: `${listener.url}/v1`, apiKey: 'none', maxRetries: 2 });
  const attempts = async (code: ErrorCode): Promise<number> => {
    failWith(code);
    listener.backend.requests.length = 0;
    await failure(patient.chat.completions.create({ model: 'tiny', messages }));
    return listener.backend.requests.length;
  };
  assert.is(await attempts('ENGINE_CRASHED'), 3);
  for (const code of [
    'ENGINE_UNAVAILABLE',
    'OUT_OF_MEMORY',
    'CONFIG_INVALID',
    'MODEL_NOT_FOUND',
    'CONTEXT_OVERFLOW',
  ] as const) {
    assert.is(await attempts(code), 1, code);
  }
});

test('an error in the middle of a stream is thrown after the text before it', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  const stream = await client.chat.completions.create({ model: 'tiny', messages, stream: true });
  let whole = '';
  const error = await failure(
    (async () => {
      for await (const chunk of stream) whole += chunk.choices[0]?.delta.content ?? '';
    })(),
  );
  assert.is(whole, 'half');
  assert.is(error.code, 'engine_crashed');
  assert.match(error.message, /the engine is gone/);
});

test('an abort of the client ends the generation', async () => {
  let reason: unknown;
  listener.backend.script = async function* (_, { signal }) {
    yield START;
    yield text('x');
    reason = await aborted(signal);
    throw reason;
  };
  const stream = await client.chat.completions.create({ model: 'tiny', messages, stream: true });
  for await (const _ of stream) break;
  await waitFor('the abort', () => reason !== undefined);
  assert.is((reason as SvcError).code, 'CANCELLED');

  reason = undefined;
  const gone = new AbortController();
  const whole = failure(client.chat.completions.create({ model: 'tiny', messages }, { signal: gone.signal }));
  await waitFor('the generation', () => listener.router.active === 1);
  gone.abort();
  await whole;
  await waitFor('the abort', () => reason !== undefined);
});

test('models can be listed, and one with a slash in its id retrieved', async () => {
  const ids: string[] = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.equal(ids, ['tiny']);
  assert.is((await client.models.retrieve('org/tiny')).id, 'tiny');
  assert.instance(await failure(client.models.retrieve('huge')), NotFoundError);
});

test('finish reason length reaches the client', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('cut');
    yield { ...FINISH, reason: 'length' };
  };
  const answer = await client.chat.completions.create({ model: 'tiny', messages, max_completion_tokens: 1 });
  assert.is(answer.choices[0]?.finish_reason, 'length');
  assert.is(listener.backend.requests[0]?.max_tokens, 1);
});

test.run();
