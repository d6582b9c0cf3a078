/** `POST /v1/embeddings` with the official client, and with invalid requests. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { BadRequestError, RateLimitError } from 'openai';
import type { EmbedEvent } from '../../src/protocol/embed.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { waitFor } from '../support/wait.ts';
import { openAiAt } from '../support/openai.ts';
import { failure } from './api-failure.ts';
import { ask, open, type Answer } from './ask.ts';
import { aborted, FINISH, measured, START, startScripted, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before(async () => {
  listener = await startScripted();
  client = openAiAt(listener.url);
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.embedScript = measured;
  listener.backend.embedRequests.length = 0;
});

const post = (body: object): Promise<Answer> => ask({ port: listener.port }, '/v1/embeddings', { body });

test('the official client requests base64 by default and gets the numbers', async () => {
  const answer = await client.embeddings.create({ model: 'tiny', input: ['four', 'fives'] });
  assert.is(answer.object, 'list');
  assert.is(answer.model, 'tiny');
  assert.equal(answer.usage, { prompt_tokens: 7, total_tokens: 7 });
  assert.equal(
    answer.data.map(({ object, index, embedding }) => [object, index, ...embedding]),
    [
      ['embedding', 0, 4, Math.fround(0.1)],
      ['embedding', 1, 5, Math.fround(1.1)],
    ],
  );
  const asFloats = await client.embeddings.create({
    model: 'tiny',
    input: ['four', 'fives'],
    encoding_format: 'float',
  });
  assert.equal(asFloats, answer);
});

test('inputs may be a text, texts, tokens or lists of tokens', async () => {
  const cases: readonly (readonly [string | string[] | number[] | number[][], (string | number[])[]])[] = [
    ['one', ['one']],
    [
      ['one', 'two'],
      ['one', 'two'],
    ],
    [[1, 2, 3], [[1, 2, 3]]],
    [
      [[1, 2], [3]],
      [[1, 2], [3]],
    ],
  ];
  for (const [input, expected] of cases) {
    await client.embeddings.create({ model: 'tiny', input });
    assert.equal(listener.backend.embedRequests.at(-1)?.input, expected);
  }
});

test('given parameters reach the backend, and empty values do not', async () => {
  await client.embeddings.create({ model: 'tiny', input: 'x', dimensions: 2, user: 'somebody' });
  for (const model of ['default', ''])
    await post({ model, input: 'x', dimensions: null, encoding_format: null, unknown: [1] });
  const [given, ...empty] = listener.backend.embedRequests;
  assert.equal(given, { model: 'tiny', input: ['x'], dimensions: 2 });
  assert.equal(empty, [{ input: ['x'] }, { input: ['x'] }]);
});

test('the maximum number of inputs is accepted, and every value is returned', async () => {
  const vector = Float32Array.from({ length: 384 }, (_, index) => index / 383);
  listener.backend.embedScript = async function* ({ input }) {
    yield START;
    for (let at = 0; at < input.length; at += 64) {
      yield { type: 'vectors', vectors: Array<Float32Array>(64).fill(vector) } satisfies EmbedEvent;
    }
    yield FINISH;
  };
  const input = Array.from({ length: 2048 }, () => 'x');
  for (const encoding_format of ['base64', 'float'] as const) {
    const answer = await post({ model: 'tiny', input, encoding_format });
    assert.is(answer.status, 200);
    const { data } = answer.json();
    assert.is(data.length, 2048);
    assert.is(data[2047].index, 2047);
  }
  const { data } = await client.embeddings.create({ model: 'tiny', input });
  assert.equal(Float32Array.from(data[2047]?.embedding ?? []), vector);
});

test('an invalid field is refused by name, and no backend is called', async () => {
  const cases: readonly (readonly [object, string | null])[] = [
    [[], null],
    [{}, 'input'],
    [{ input: 7 }, 'input'],
    [{ input: {} }, 'input'],
    [{ input: true }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: '' }, 'input[0]'],
    [{ input: ['a', ''] }, 'input[1]'],
    [{ input: [[]] }, 'input[0]'],
    [{ input: ['a', 7] }, 'input[1]'],
    [{ input: [1, 'a'] }, 'input[0]'],
    [{ input: [[1, -1]] }, 'input[0]'],
    [{ input: [1.5] }, 'input[0]'],
    [{ input: [['a']] }, 'input[0]'],
    [{ input: [[[1]]] }, 'input[0]'],
    [{ input: [2 ** 31] }, 'input[0]'],
    [{ input: Array(2049).fill('a') }, 'input'],
    [{ input: 'a', dimensions: 0 }, 'dimensions'],
    [{ input: 'a', dimensions: 1.5 }, 'dimensions'],
    [{ input: 'a', dimensions: '64' }, 'dimensions'],
    [{ input: 'a', dimensions: 1e9 }, 'dimensions'],
    [{ input: 'a', encoding_format: 'hex' }, 'encoding_format'],
    [{ input: 'a', model: 7 }, 'model'],
  ];
  for (const [body, param] of cases) {
    const answer = await post(body);
    const what = JSON.stringify(body).slice(0, 60);
    assert.is(answer.status, 400, what);
    const { error } = answer.json();
    assert.is(error.code, 'invalid_request', what);
    assert.is(error.param?.startsWith(param ?? '') ?? param === null, true, `${what} ${String(error.param)}`);
  }
  const many = await post({ input: Array.from({ length: 200 }, () => Array(600).fill(1)) });
  assert.is(many.status, 400);
  assert.equal(listener.backend.embedRequests, []);
});

test('a file path as the model, and a GET, are refused', async () => {
  assert.is((await post({ model: 'file:/etc/passwd', input: 'x' })).status, 404);
  const answer = await ask({ port: listener.port }, '/v1/embeddings');
  assert.equal([answer.status, answer.headers.allow], [405, 'POST']);
});

test('errors arrive as error classes of the client', async () => {
  const failWith = (error: SvcError): void => {
    listener.backend.embedScript = async function* () {
      throw error;
    };
  };
  failWith(new SvcError('INVALID_REQUEST', 'it makes none', { param: 'model' }));
  const refused = await failure(client.embeddings.create({ model: 'tiny', input: 'x' }));
  assert.instance(refused, BadRequestError);
  failWith(new SvcError('BUSY', 'too many'));
  assert.instance(await failure(client.embeddings.create({ model: 'tiny', input: 'x' })), RateLimitError);
  // An error after the first vectors is still an HTTP status, because nothing was sent yet.
  listener.backend.embedScript = async function* () {
    yield START;
    yield { type: 'vectors', vectors: [Float32Array.of(1)] };
    throw new SvcError('ENGINE_CRASHED', 'gone');
  };
  assert.is((await post({ input: ['a', 'b'] })).status, 502);
});

test('a client that disconnects ends the work', async () => {
  let reason: unknown;
  listener.backend.embedScript = async function* (_, { signal }) {
    yield START;
    yield { type: 'vectors', vectors: [Float32Array.of(1)] };
    reason = await aborted(signal);
    throw reason;
  };
  const gone = new AbortController();
  const whole = failure(client.embeddings.create({ model: 'tiny', input: ['a', 'b'] }, { signal: gone.signal }));
  await waitFor('the work', () => listener.router.active === 1);
  gone.abort();
  await whole;
  await waitFor('the abort', () => reason !== undefined);
  assert.is((reason as SvcError).code, 'CANCELLED');
  await waitFor('the router to forget it', () => listener.router.active + listener.router.waiting === 0);
});

test('a client that reads a part and disconnects leaves nothing behind', async () => {
  const vector = new Float32Array(4096).fill(0.1);
  listener.backend.embedScript = async function* ({ input }) {
    yield START;
    yield { type: 'vectors', vectors: input.map(() => vector) };
    yield FINISH;
  };
  const body = { input: Array.from({ length: 500 }, () => 'x') };
  const res = await open({ port: listener.port }, '/v1/embeddings', { body });
  assert.is(res.statusCode, 200);
  const ended = listener.world.ended.length;
  res.destroy();
  await waitFor('the answer to end', () => listener.world.ended.length > ended);
});

test.run();
