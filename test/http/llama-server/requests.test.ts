/** llama-server's small routes: requests, answers and errors, with a scripted backend. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, type Answer } from '../ask.ts';
import { hello, startScripted, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
  listener.backend.requests.length = 0;
  listener.backend.tokenizeRequests.length = 0;
});

const post = (path: string, body: object): Promise<Answer> => ask(listener, path, { body });

test('tokenize passes the text and its options on', async () => {
  const answer = await post('/tokenize', { model: 'default', content: 'ab', add_special: true, n_ctx: 5, route: null });
  assert.equal([answer.status, answer.json()], [200, { tokens: [97, 98] }]);
  await post('/tokenize', { model: 'tiny', content: '', parse_special: false, with_pieces: true });
  assert.equal(listener.backend.tokenizeRequests, [
    { text: 'ab', add_special: true, parse_special: true, pieces: false },
    { model: 'tiny', text: '', add_special: false, parse_special: false, pieces: true },
  ]);
});

test('detokenize returns the text', async () => {
  assert.equal((await post('/detokenize', { tokens: [97, 98] })).json(), { content: 'ab' });
  assert.equal((await post('/detokenize', { tokens: [] })).json(), { content: '' });
});

test('apply-template renders what a chat completion would', async () => {
  const tools = [{ type: 'function', function: { name: 'look' } }];
  const body = { messages: [{ role: 'user', content: 'hi' }], tools, chat_template_kwargs: { a: 1 }, stream: true };
  const answer = await post('/apply-template', body);
  assert.equal(answer.json(), { prompt: '[{"role":"user","content":"hi"}]' });
  assert.equal(listener.backend.tokenizeRequests, [
    {
      messages: [{ role: 'user', content: 'hi' }],
      sampling: {},
      stop: [],
      tools: [{ name: 'look', parameters: {} }],
      chat_template_kwargs: { a: 1 },
    },
  ]);
});

test('infill makes a gap of the texts', async () => {
  const body = { input_prefix: 'a', input_suffix: 'b', prompt: 'c', n_predict: 5, top_k: 3, samplers: ['top_k'] };
  const answer = await post('/infill', { ...body, input_extra: [{ text: 'd' }] });
  const { content, stop, model, tokens_predicted, tokens_evaluated, tokens_cached, truncated } = answer.json();
  assert.equal([content, stop, model, truncated], ['hello world', true, 'tiny', false]);
  assert.equal([tokens_predicted, tokens_evaluated, tokens_cached], [2, 7, 3]);
  assert.equal(answer.json().timings, {
    prompt_n: 4,
    cache_n: 3,
    predicted_n: 2,
    prompt_ms: 1,
    predicted_ms: 1,
    prompt_per_token_ms: 0.25,
    prompt_per_second: 4000,
    predicted_per_token_ms: 250,
    predicted_per_second: 4,
  });
  assert.equal(listener.backend.requests, [
    {
      messages: [],
      raw: { text: 'c', infill: { prefix: 'a', suffix: 'b', extra: [{ filename: 'tmp', text: 'd' }] } },
      max_tokens: 5,
      sampling: { top_k: 3 },
      stop: [],
    },
  ]);
});

/** As llama.vim sends it: its default name of a model is empty. */
const LLAMA_VIM = {
  input_prefix: 'int a = ',
  input_suffix: ';',
  input_extra: [{ text: 'x', time: [1, 2], filename: 'a.c' }],
  prompt: '',
  n_predict: 128,
  stop: [],
  n_indent: 0,
  top_k: 40,
  top_p: 0.9,
  stream: false,
  samplers: ['top_k', 'top_p', 'infill'],
  cache_prompt: true,
  t_max_prompt_ms: 500,
  t_max_predict_ms: 250,
  model: '',
};

test('an empty model is the default one', async () => {
  assert.is((await post('/infill', LLAMA_VIM)).json().content, 'hello world');
  assert.is('model' in (listener.backend.requests[0] ?? {}), false);
  assert.equal((await post('/tokenize', { model: '', content: 'ab' })).json(), { tokens: [97, 98] });
  assert.equal((await post('/detokenize', { model: '', tokens: [97] })).json(), { content: 'a' });
  const messages = [{ role: 'user', content: 'a' }];
  assert.is((await post('/apply-template', { model: '', messages })).status, 200);
});

test('an answer has only the fields that response_fields names', async () => {
  const names = ['content', 'timings/prompt_n', 'timings/predicted_per_second', 'truncated', 'tokens_cached'];
  const absent = ['', 'index/0', 'timings/constructor', 'toString', '__proto__'];
  const body = { ...LLAMA_VIM, response_fields: [...names, ...absent] };
  assert.equal((await post('/infill', body)).json(), {
    content: 'hello world',
    'timings/prompt_n': 4,
    'timings/predicted_per_second': 4,
    truncated: false,
    tokens_cached: 3,
  });
  // llama.vim's warm-up of the prefix cache wants none.
  assert.equal((await post('/infill', { ...body, n_predict: 0, response_fields: [''] })).json(), {});
  const { text: stream } = await post('/infill', { ...body, response_fields: ['stop'], stream: true });
  assert.match(stream, /"content":"world","stop":false}\n\ndata: {"stop":true}\n\n$/);
});

test('a name in response_fields has a greatest length', async () => {
  const ask = async (name: string) =>
    post('/completion', { prompt: 'Say', n_predict: 5, response_fields: ['stop', name] });
  assert.equal((await ask('/'.repeat(64))).json(), { stop: true });
  const { status, text } = await ask('/'.repeat(65));
  assert.is(status, 400);
  assert.match(text, 'response_fields[1] must have a length of at most 64');
});

test('a completion continues a raw prompt', async () => {
  const stop = ['x'];
  const whole = (await post('/completion', { prompt: 'Say', n_predict: 5, stop, top_k: 3 })).json();
  assert.equal([whole.content, whole.stop, whole.stop_type, whole.tokens_predicted], ['hello world', true, 'eos', 2]);
  await post('/completion', { prompt: [1, 2], n_predict: -1 });
  await post('/completion', { prompt: ['Say'], logit_bias: [[7, false]] });
  const plain = { messages: [], sampling: {}, stop: [] };
  assert.equal(listener.backend.requests, [
    { ...plain, raw: { text: 'Say' }, max_tokens: 5, sampling: { top_k: 3 }, stop },
    { ...plain, raw: { tokens: [1, 2] } },
    { ...plain, raw: { text: 'Say' }, sampling: { logit_bias: [[7, -100]] } },
  ]);
  const { text: stream } = await post('/completion', { prompt: 'Say', stream: true });
  assert.match(stream, /"content":"hello ","stop":false}\n\n.*"stop":true/s);
  assert.is((await post('/completion', { prompt: 'Say', n_predict: 0 })).json().content, '');
});

test('a streamed infill ends with an event that says so', async () => {
  const answer = await post('/infill', { input_prefix: 'a', input_suffix: 'b', stream: true });
  const events = answer.text.split('\n\n').filter((event) => event.startsWith('data: '));
  const [first, second, last] = events.map((event) => JSON.parse(event.slice(6)));
  assert.equal(
    [first, second],
    [
      { index: 0, content: 'hello ', stop: false },
      { index: 0, content: 'world', stop: false },
    ],
  );
  assert.equal([last.stop, last.content, last.tokens_predicted], [true, '', 2]);
  assert.is(listener.backend.requests[0]?.max_tokens, undefined);
});

test('an infill of no tokens only computes the prompt', async () => {
  const body = { input_prefix: 'a', input_suffix: 'b', n_predict: 0 };
  assert.is((await post('/infill', body)).json().content, '');
  assert.not.match((await post('/infill', { ...body, stream: true })).text, /hello/);
  assert.equal(
    listener.backend.requests.map(({ max_tokens }) => max_tokens),
    [1, 1],
  );
});

const REFUSED: readonly [path: string, body: object, param: string, message: RegExp][] = [
  ['/tokenize', {}, 'content', /content is required/],
  ['/tokenize', { content: ['a', 1] }, 'content', /content must be string/],
  ['/tokenize', { content: 'é'.repeat(1024 * 1024 + 1) }, 'content', /content must have at most 2097152 bytes/],
  ['/tokenize', { content: 'a', with_pieces: 'yes' }, 'with_pieces', /with_pieces must be boolean/],
  ['/detokenize', {}, 'tokens', /tokens is required/],
  ['/detokenize', { tokens: 'a' }, 'tokens', /tokens must be array/],
  ['/detokenize', { tokens: [1, -1] }, 'tokens[1]', /tokens\[1\] must be at least 0/],
  ['/apply-template', {}, 'messages', /messages is required/],
  ['/apply-template', { messages: [{ role: 'x', content: 'a' }] }, 'messages[0].role', /messages\[0\]\.role/],
  ['/completion', {}, 'prompt', /prompt is required/],
  ['/completion', { prompt: ['a', 'b'] }, 'prompt', /prompt must be one text/],
  ['/completion', { prompt: 'a', n_probs: 3 }, 'n_probs', /n_probs is not supported/],
  ['/infill', { input_prefix: 'a' }, 'input_suffix', /input_suffix is required/],
  ['/infill', { input_prefix: 'a', input_suffix: 'b', n_probs: 3 }, 'n_probs', /n_probs is not supported/],
  ['/infill', { input_prefix: 'a', input_suffix: 'b', input_extra: [{}] }, 'input_extra[0].text', /is required/],
];
for (const [path, body, param, message] of REFUSED) {
  test(`${path} refuses ${param} (${Object.keys(body).join(' ')})`, async () => {
    const answer = await post(path, body);
    const { error } = answer.json();
    assert.equal([answer.status, error.type, error.param], [400, 'invalid_request_error', param]);
    assert.match(error.message, message);
  });
}

test('files are no models here', async () => {
  const model = 'file:/tmp/x.gguf';
  const bodies = [
    ['/tokenize', { content: 'a' }],
    ['/detokenize', { tokens: [1] }],
    ['/apply-template', { messages: [{ role: 'user', content: 'a' }] }],
    ['/completion', { prompt: 'a' }],
    ['/infill', { input_prefix: 'a', input_suffix: 'b' }],
  ] as const;
  for (const [path, body] of bodies) {
    const answer = await post(path, { ...body, model });
    assert.equal([answer.status, answer.json().error.param], [404, 'model'], path);
  }
});

test('health is readiness in llama-server’s words', async () => {
  assert.equal((await ask(listener, '/health')).json(), { status: 'ok' });
  const { conditions } = listener.world;
  listener.world.conditions = conditions.map((condition) => ({ ...condition, status: 'fail' }));
  const answer = await ask(listener, '/health');
  listener.world.conditions = conditions;
  assert.equal([answer.status, answer.headers['retry-after']], [503, '1']);
  assert.equal(answer.json(), { error: { code: 503, message: 'svc is not ready', type: 'unavailable_error' } });
});

test('props says what is known of a model', async () => {
  for (const path of ['/props', '/props?model=', '/props?model=tiny', '/props?model=default']) {
    const props = (await ask(listener, path)).json();
    const { params, n_ctx } = props.default_generation_settings;
    assert.equal([params.top_k, params.top_p, n_ctx], [20, 0.95, 4096]);
    assert.equal([props.total_slots, props.model_alias, props.chat_template], [4, 'tiny', '{{ messages }}']);
    assert.equal(props.modalities, { vision: false, video: false, audio: false });
    assert.is(props.model_path, undefined);
  }
  const missing = await ask(listener, '/props?model=nothing');
  assert.equal([missing.status, missing.json().error.code], [404, 'model_not_found']);
});

test.run();
