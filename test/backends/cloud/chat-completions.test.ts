/** Chat Completions of OpenAI and of compatible servers: the requests sent, and how recorded answers are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCompletions as wire } from '../../../src/backends/cloud/wires/chat-completions/chat-completions.ts';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import type { FinishReason } from '../../../src/protocol/generate.ts';
import { chunk } from './cloud-support.ts';
import { featuresOf, LOCAL_SAMPLING } from './features.ts';
import { CACHED, callPiece, HELLO, MODEL, MODELS_PAGE, piece, THOUGHT_AND_CALLS } from './recorded-chat-completions.ts';
import {
  answer,
  ask,
  bodyOf,
  failsCutAnywhere,
  finishOf,
  joined,
  KEY,
  PIXEL,
  refusesByName,
  refusesWhatIsNotTheApi,
  thrown,
  usageOf,
  USER,
  WEATHER,
} from './wire-support.ts';

const { feature, refused } = featuresOf('chat_completions', test);

type Wish = Parameters<typeof bodyOf>[2];

const body = (wish: Wish, quirks: Quirks = {}): Record<string, unknown> => bodyOf(wire, 'm', wish, quirks);
const sent = (messages: unknown, quirks: Quirks = {}): unknown => body({ messages }, quirks)['messages'];
const refuses = (wish: Wish, param: string, quirks: Quirks = {}): void => {
  refusesByName(wire, 'm', wish, param, quirks);
};

const IMAGE = { type: 'image', media_type: 'image/png', data: PIXEL };
const CALL = { id: 'call_1', name: 'get_weather', arguments: '{"city": "Bonn"}' };
const CALLED = { role: 'assistant', content: '', tool_calls: [CALL] };
const SENT_CALL = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Bonn"}' } };
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: '12 °C' };

test('a request has its path, the key and only the fields that were asked for', () => {
  assert.equal(ask(wire, 'm', {}), {
    path: '/chat/completions',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: 'm', messages: [USER], stream: true, stream_options: { include_usage: true } },
  });
});

test('a server may name its own header for the key, and extra headers', () => {
  assert.equal(ask(wire, 'm', {}, { key_header: 'api-key' }).headers, { 'api-key': KEY });
  assert.equal(ask(wire, 'm', {}, { headers: { 'x-title': 'svc' } }).headers, {
    'x-title': 'svc',
    authorization: `Bearer ${KEY}`,
  });
});

test('a request without a key has no key header', () => {
  const request = wire.request({ messages: [USER], sampling: {}, stop: [] }, { model: 'm', key: null, quirks: {} });
  assert.equal(request.headers, {});
});

feature('text', 'arrives unchanged', () => {
  const events = answer(wire, HELLO);
  assert.equal(events[0], { type: 'started', model: MODEL });
  assert.is(joined(events).text, 'Hello! 👋 Grüße');
});

test('an event without data and the [DONE] marker yield nothing', () => {
  for (const data of ['', '[DONE]']) assert.equal(wire.reader({}).read({ name: '', data }), []);
});

feature('system messages', 'keep their position', () => {
  const messages = [{ role: 'system', content: 'Be brief.' }, USER, { role: 'system', content: 'Be polite.' }];
  assert.equal(sent(messages), messages);
});

test('an image in a system message is rejected, naming its place', () => {
  refuses({ messages: [USER, { role: 'system', content: [IMAGE] }] }, 'messages[1].content');
});

feature('several turns', 'are sent one by one without reasoning; text-only content is sent as a string', () => {
  const parts = [
    { type: 'text', text: 'three' },
    { type: 'text', text: 'four' },
  ];
  assert.equal(
    sent([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two', reasoning: 'hm' },
      { role: 'user', content: parts },
    ]),
    [
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'two' },
      { role: 'user', content: 'three\nfour' },
    ],
  );
});

feature('images', 'are sent as data URLs; a server without image support is not asked', () => {
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'What?' }, IMAGE] }];
  assert.equal(sent(messages), [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
      ],
    },
  ]);
  for (const name of ['images', 'image', 'image_url']) {
    refuses({ messages }, 'messages[0].content', { unsupported: [name] });
  }
});

feature('images by URL', 'are sent as URLs', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'image_url', url: 'https://a.example/b' }] }]), [
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b' } }] },
  ]);
});

feature('tools', 'are sent with their schema; a tool without one gets an empty schema', () => {
  assert.equal(body({ tools: [WEATHER, { name: 'get_time' }] })['tools'], [
    { type: 'function', function: WEATHER },
    { type: 'function', function: { name: 'get_time', parameters: {} } },
  ]);
});

feature('tools', 'are called with arguments assembled by index', () => {
  const events = answer(wire, THOUGHT_AND_CALLS);
  assert.equal(joined(events).calls, [
    { id: 'call_a', name: 'get_weather', arguments: '{"city":"Köln"}' },
    { id: 'call_b', name: 'get_time', arguments: '{}' },
  ]);
  assert.is(finishOf(events), 'tool_calls');
});

feature('tool choice', "is sent in the API's own terms", () => {
  const choose = (choice: unknown): unknown => body({ tools: [WEATHER], tool_choice: choice })['tool_choice'];
  assert.is(body({ tools: [WEATHER] })['tool_choice'], undefined);
  for (const choice of ['auto', 'none', 'required']) assert.is(choose(choice), choice);
  assert.equal(choose({ name: 'get_weather' }), { type: 'function', function: { name: 'get_weather' } });
});

test('tool choice without tools: none is accepted, any other is rejected by name', () => {
  assert.equal(body({ tool_choice: 'none' }), body({}));
  for (const choice of ['required', { name: 'get_weather' }]) refuses({ tool_choice: choice }, 'tool_choice');
});

feature('at most one tool call', 'is sent unchanged if there are tools', () => {
  assert.is(body({ tools: [WEATHER], parallel_tool_calls: false })['parallel_tool_calls'], false);
  assert.is(body({ tools: [WEATHER] })['parallel_tool_calls'], undefined);
  assert.equal(body({ parallel_tool_calls: false }), body({}));
});

feature('tool results', 'are sent with the id of the call', () => {
  assert.equal(sent([USER, CALLED, RESULT]), [
    USER,
    { role: 'assistant', content: null, tool_calls: [SENT_CALL] },
    { role: 'tool', tool_call_id: 'call_1', content: '12 °C' },
  ]);
  const said = { ...CALLED, content: 'I look.' };
  assert.equal((sent([USER, said, RESULT]) as object[])[1], {
    role: 'assistant',
    content: 'I look.',
    tool_calls: [SENT_CALL],
  });
});

test('a tool result without a call id is rejected by name', () => {
  refuses({ messages: [USER, CALLED, { role: 'tool', content: '1' }] }, 'messages[2].tool_call_id');
});

refused('images in tool results', () => {
  refuses({ messages: [USER, CALLED, { ...RESULT, content: [IMAGE] }] }, 'messages[2].content');
});

test('a server that requires reasoning back gets it beside the tool calls', () => {
  const messages = [
    USER,
    { ...CALLED, reasoning: 'hm' },
    RESULT,
    { role: 'assistant', content: 'Cold.', reasoning: 'so' },
  ];
  const [, called, , told] = sent(messages, { replay_reasoning: true }) as Record<string, unknown>[];
  assert.is(called?.['reasoning_content'], 'hm');
  assert.equal(told, { role: 'assistant', content: 'Cold.' });
  assert.not.match(JSON.stringify(sent(messages)), 'reasoning');
});

feature('reasoning effort', 'is sent unchanged', () => {
  for (const effort of ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']) {
    assert.is(body({ reasoning_effort: effort })['reasoning_effort'], effort);
  }
});

feature('reasoning output', 'separate from the text', () => {
  const { text, reasoning } = joined(answer(wire, THOUGHT_AND_CALLS));
  assert.is(reasoning, 'The user wants the weather.');
  assert.is(text, "Let's look.");
});

feature('any JSON object', 'is sent as a response format', () => {
  assert.equal(body({ format: { type: 'json_object' } })['response_format'], { type: 'json_object' });
});

feature('JSON schema', 'is sent unchanged, and as strict unless the request says otherwise', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  const formatOf = (more: object): unknown =>
    body({ format: { type: 'json_schema', schema, ...more } })['response_format'];
  assert.equal(formatOf({}), { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } });
  assert.equal(formatOf({ name: 'a', strict: false }), {
    type: 'json_schema',
    json_schema: { name: 'a', schema, strict: false },
  });
});

refused('grammar', () => {
  refuses({ format: { type: 'grammar', grammar: 'root ::= "a"' } }, 'format');
});

test('a server that supports grammars gets the grammar', () => {
  const format = { type: 'grammar', grammar: 'root ::= "a"' };
  assert.is(body({ format }, { grammar: true })['grammar'], 'root ::= "a"');
});

feature('stop strings', 'are sent unchanged', () => {
  assert.equal(body({ stop: ['\n\n', 'END'] })['stop'], ['\n\n', 'END']);
});
feature('max_tokens', 'is sent unchanged, or under the name that the server uses', () => {
  assert.is(body({ max_tokens: 5 })['max_tokens'], 5);
  const renamed = body({ max_tokens: 5 }, { max_tokens_field: 'max_completion_tokens' });
  assert.is(renamed['max_completion_tokens'], 5);
  assert.is(renamed['max_tokens'], undefined);
});
feature('temperature', 'is sent unchanged', () => {
  assert.is(body({ sampling: { temperature: 0 } })['temperature'], 0);
});
feature('top_p', 'is sent unchanged, 1 too, because servers have other defaults', () => {
  assert.is(body({ sampling: { top_p: 1 } })['top_p'], 1);
});
feature('top_k', 'is sent under the name that local servers use', () => {
  assert.is(body({ sampling: { top_k: 40 } })['top_k'], 40);
});
feature('min_p', 'is sent under the name that local servers use', () => {
  assert.is(body({ sampling: { min_p: 0.05 } })['min_p'], 0.05);
});
feature('repeat_penalty', 'is sent under the name that the server uses', () => {
  assert.is(body({ sampling: { repeat_penalty: 1.1 } })['repeat_penalty'], 1.1);
  const renamed = body({ sampling: { repeat_penalty: 1.1 } }, { repeat_penalty_field: 'repetition_penalty' });
  assert.is(renamed['repetition_penalty'], 1.1);
  assert.is(renamed['repeat_penalty'], undefined);
});
feature('frequency_penalty', 'is sent unchanged', () => {
  assert.is(body({ sampling: { frequency_penalty: 0.5 } })['frequency_penalty'], 0.5);
});
feature('presence_penalty', 'is sent unchanged', () => {
  assert.is(body({ sampling: { presence_penalty: -0.5 } })['presence_penalty'], -0.5);
});
refused('other samplers', () => {
  for (const { name, at_work, idle } of LOCAL_SAMPLING) {
    assert.equal(body({ sampling: idle }), body({}));
    refuses({ sampling: at_work }, name);
  }
});
feature('seed', 'is sent unchanged', () => {
  assert.is(body({ sampling: { seed: 0 } })['seed'], 0);
});
feature('logit_bias', 'is sent by token', () => {
  assert.equal(
    body({
      sampling: {
        logit_bias: [
          [42, -3],
          [7, 1],
        ],
      },
    })['logit_bias'],
    { 42: -3, 7: 1 },
  );
  assert.equal(body({ sampling: { logit_bias: [] } }), body({}));
});
feature('logprobs', 'are requested, with or without top alternatives', () => {
  const { logprobs, top_logprobs: top } = body({ logprobs: 3 });
  assert.equal([logprobs, top], [true, 3]);
  const own = body({ logprobs: 0 });
  assert.equal([own['logprobs'], own['top_logprobs']], [true, undefined]);
});
feature('logprobs', 'arrive with the text that they belong to', () => {
  const e = { token: 'e', bytes: null, logprob: -1 };
  const content = [{ token: 'é', bytes: [195, 169], logprob: -0.5, top_logprobs: [e] }];
  const choices = [{ delta: { content: 'é' }, logprobs: { content } }];
  const events = answer(wire, [piece({}, null, { choices }), piece({}, 'stop')]);
  assert.equal(events[1], {
    type: 'text',
    text: 'é',
    logprobs: [{ token: 'é', bytes: [195, 169], logprob: -0.5, top: [{ token: 'e', bytes: [101], logprob: -1 }] }],
  });
});

test('an unsupported parameter is rejected under the name that the caller used, ours or that of the API', () => {
  const quirks = { unsupported: ['tools', 'top_k', 'min_p', 'repeat_penalty', 'stop', 'response_format'] };
  refuses({ tools: [WEATHER] }, 'tools', quirks);
  refuses({ sampling: { top_k: 3 } }, 'top_k', quirks);
  refuses({ stop: ['END'] }, 'stop', quirks);
  refuses({ format: { type: 'json_object' } }, 'response_format', quirks);
  assert.equal(body({ tools: [], stop: [] }, quirks), body({}));
});

test('what only local models do is rejected by name', () => {
  refuses({ lora: [{ id: 'legal', scale: 1 }] }, 'lora');
  refuses({ repetition_guard: 'stop' }, 'repetition_guard');
  refuses({ reasoning_budget_tokens: 5 }, 'reasoning_budget_tokens');
  refuses({ chat_template_kwargs: { x: 1 } }, 'chat_template_kwargs');
  assert.equal(body({ lora: [] }), body({}));
  const asked = { reasoning_effort: 'low', reasoning_optional: true };
  assert.equal(body({ ...asked, reasoning_budget_tokens: 5 }), body({ reasoning_effort: 'low' }));
});

test('a no-op value is not sent to a server that does not support the parameter', () => {
  const quirks = { unsupported: ['top_k', 'min_p', 'repeat_penalty'] };
  assert.equal(body({ sampling: { top_k: 0, min_p: 0, repeat_penalty: 1 } }, quirks), body({}));
});

feature('usage', 'is requested, and arrives in a separate chunk', () => {
  assert.equal(usageOf(answer(wire, HELLO)), { input_tokens: 5, output_tokens: 2, cached_tokens: 0 });
});

test('usage is not requested from a server that rejects the request for it', () => {
  assert.is(body({}, { stream_usage: false })['stream_options'], undefined);
});

feature('cached tokens', 'count as input', () => {
  assert.equal(usageOf(answer(wire, CACHED)), {
    input_tokens: 2132,
    output_tokens: 12,
    reasoning_tokens: 4,
    cached_tokens: 2000,
  });
});

feature('finish reasons', 'are mapped from the values of all servers that speak this API', () => {
  const words: Readonly<Record<FinishReason, readonly string[]>> = {
    stop: ['stop', 'eos', 'toString'],
    length: ['length', 'max_tokens', 'model_length'],
    tool_calls: ['tool_calls', 'function_call', 'tool_use'],
    content_filter: ['content_filter', 'sensitive'],
    cancelled: [],
  };
  for (const [reason, all] of Object.entries(words)) {
    for (const word of all) assert.is(finishOf(answer(wire, [piece({ content: 'Hi' }, word)])), reason, word);
  }
});

feature('errors in the stream', "are reported with the provider's message", () => {
  const error = thrown(() =>
    answer(wire, [...HELLO.slice(0, 2), piece({}, null, { error: { code: 429, message: 'Slow' } })]),
  );
  assert.is(error.code, 'BUSY');
  assert.is(error.retryable, true);
  assert.is(error.quote, 'Slow');
  for (const inside of [
    { base_resp: { status_code: 1008, status_msg: 'balance' } },
    chunk({}, null, { x_groq: { error: 'over capacity' } }),
    { error: 'model requires more memory' },
    { object: 'error', message: 'no', code: 500 },
  ]) {
    assert.is(thrown(() => answer(wire, [[undefined, inside]])).code, 'PROVIDER_FAILED', JSON.stringify(inside));
  }
});

feature('errors in the stream', 'may be non-retryable', () => {
  for (const reason of ['error', 'abort', 'network_error', 'insufficient_system_resource']) {
    const error = thrown(() => answer(wire, [piece({ content: 'secret' }, reason)]));
    assert.is(error.code, 'PROVIDER_FAILED');
    assert.not.match(JSON.stringify(error.toRecord()), 'secret');
  }
});

feature('interrupted answers', 'are failures, wherever they are cut', () => {
  for (const whole of [HELLO.slice(0, -1), THOUGHT_AND_CALLS]) failsCutAnywhere(wire, whole);
});

test('missing usage figures are not a failure', () => {
  const events = answer(wire, HELLO.slice(0, -1));
  assert.is(finishOf(events), 'stop');
  assert.is(usageOf(events), undefined);
});

test('data that is not of this API is a failure, and its text is not repeated', () => {
  refusesWhatIsNotTheApi(wire, ['{"choices":"secret"}']);
  const nameless = callPiece({ index: 0, id: 'a', function: { arguments: '{}' } });
  assert.is(thrown(() => answer(wire, [nameless, piece({}, 'tool_calls')])).code, 'PROVIDER_FAILED');
});

test('an error without a message is still an error', () => {
  assert.equal(wire.error({ error: {} }), { message: '', code: null });
  for (const none of [null, undefined, 'x', 7, [], {}, { choices: [] }, { base_resp: { status_code: 0 } }]) {
    assert.is(wire.error(none), null);
  }
});

feature('list of models', 'is read page by page, also if it is a bare list', () => {
  const target = { key: KEY, quirks: {} };
  assert.equal(wire.listModels(target, null), {
    path: '/models',
    headers: { authorization: `Bearer ${KEY}` },
    body: null,
  });
  assert.is(wire.listModels(target, 'a b')?.path, '/models?after=a+b');
  assert.equal(wire.readModels(MODELS_PAGE), { models: ['gpt-6.1-terra', 'openai/gpt-oss-120b'], after: null });
  assert.is(wire.readModels({ ...MODELS_PAGE, has_more: true, last_id: 'x' }).after, 'x');
  assert.equal(wire.readModels(MODELS_PAGE.data), wire.readModels(MODELS_PAGE));
});

test('a server may have its own path for the model list, or no list', () => {
  const path = (models_path: string | null): string | undefined =>
    wire.listModels({ key: null, quirks: { models_path } }, 'b')?.path;
  assert.is(path('/models?type=chat'), '/models?type=chat&after=b');
  assert.is(path(null), undefined);
  assert.is(thrown(() => wire.readModels({ models: [] })).code, 'PROVIDER_FAILED');
});

test.run();
