/** Anthropic's Messages API: the requests sent, and the list of models. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { messages as wire } from '../../../src/backends/cloud/wires/messages/messages.ts';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import { given } from '../../../src/protocol/given.ts';
import { featuresOf, LOCAL_SAMPLING } from './features.ts';
import { MODELS_PAGE } from './recorded-messages.ts';
import { ask, bodyOf, KEY, PIXEL, refusesByName, thrown, USER, WEATHER } from './wire-support.ts';

const { feature, refused } = featuresOf('messages', test);

/** Accepts sampling parameters, and a reasoning budget in tokens. */
const OLD = 'claude-sonnet-4-5';
/** Accepts neither. */
const NEW = 'claude-sonnet-5-5';

const body = (wish: Parameters<typeof bodyOf>[2], model = OLD, quirks: Quirks = {}): Record<string, unknown> =>
  bodyOf(wire, model, wish, quirks);
const sent = (messages: unknown, quirks: Quirks = {}): unknown => body({ messages }, OLD, quirks)['messages'];
const text = (words: string): object => ({ type: 'text', text: words });

const CALL = { id: 'toolu_1', name: 'get_weather', arguments: '{"city":"Bonn"}' };
const CALLED = { role: 'assistant', content: '', tool_calls: [CALL] };
const TOOL_USE = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Bonn' } };
const RESULT = { role: 'tool', tool_call_id: 'toolu_1', content: '12 °C' };

test('a request has its path, the API version, the key and only the fields that were asked for', () => {
  assert.equal(ask(wire, NEW, {}), {
    path: '/v1/messages',
    headers: { 'anthropic-version': '2023-06-01', 'x-api-key': KEY },
    body: {
      model: NEW,
      max_tokens: 32_000,
      stream: true,
      messages: [{ role: 'user', content: [text('Hi')] }],
    },
  });
});

test('a server may name its own header for the key, and extra headers', () => {
  const { headers } = ask(
    wire,
    NEW,
    {},
    { key_header: 'authorization', headers: { 'anthropic-version': '2026-10-21' } },
  );
  assert.equal(headers, { 'anthropic-version': '2026-10-21', authorization: `Bearer ${KEY}` });
});

test('a request without a key has no key header', () => {
  const request = wire.request({ messages: [USER], sampling: {}, stop: [] }, { model: OLD, key: null, quirks: {} });
  assert.equal(Object.keys(request.headers), ['anthropic-version']);
});

feature('system messages', 'are joined at the front, wherever they were', () => {
  const asked = body({
    messages: [
      { role: 'system', content: 'Be brief.' },
      USER,
      { role: 'assistant', content: 'Hello' },
      { role: 'system', content: [text('Be'), text('polite.')] },
      { role: 'user', content: 'Bye' },
    ],
  });
  assert.is(asked['system'], 'Be brief.\n\nBe\npolite.');
  assert.equal(
    (asked['messages'] as { role: string }[]).map(({ role }) => role),
    ['user', 'assistant', 'user'],
  );
});

test('an image in a system message is rejected, naming its place', () => {
  const content = [{ type: 'image', media_type: 'image/png', data: PIXEL }];
  refusesByName(wire, OLD, { messages: [USER, { role: 'system', content }] }, 'messages[1].content');
});

feature('several turns', 'alternate: consecutive messages of one role are joined, and nothing empty is sent', () => {
  assert.equal(
    sent([
      { role: 'user', content: 'one' },
      { role: 'user', content: [text('two'), text('')] },
      { role: 'assistant', content: '' },
      { role: 'assistant', content: 'three', reasoning: 'hm' },
      { role: 'user', content: 'four' },
    ]),
    [
      { role: 'user', content: [text('one'), text('two')] },
      { role: 'assistant', content: [text('three')] },
      { role: 'user', content: [text('four')] },
    ],
  );
});

test('texts of only white space, which the API refuses, are left out', () => {
  assert.equal(
    sent([
      { role: 'user', content: [text(' '), text('one')] },
      { ...CALLED, content: '\n\n' },
      { role: 'assistant', content: '\n' },
      { ...RESULT, content: '\n' },
      { role: 'user', content: ' ' },
      { role: 'assistant', content: ' two ' },
      { role: 'user', content: '\t' },
    ]),
    [
      { role: 'user', content: [text('one')] },
      { role: 'assistant', content: [TOOL_USE] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] },
      { role: 'assistant', content: [text(' two ')] },
    ],
  );
  refusesByName(wire, OLD, { messages: [{ role: 'user', content: ' ' }] }, 'messages');
});

test('a conversation of only a system message is rejected by name', () => {
  refusesByName(wire, OLD, { messages: [{ role: 'system', content: 'Be brief.' }] }, 'messages');
});

feature('images', 'are sent inline as base64', () => {
  assert.equal(
    sent([{ role: 'user', content: [text('What?'), { type: 'image', media_type: 'image/png', data: PIXEL }] }]),
    [
      {
        role: 'user',
        content: [text('What?'), { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } }],
      },
    ],
  );
});

feature('images by URL', 'are sent as URLs', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'image_url', url: 'https://a.example/b' }] }]), [
    { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://a.example/b' } }] },
  ]);
});

feature('tools', 'are sent with their schema; a tool without one gets an empty schema', () => {
  assert.equal(body({ tools: [WEATHER, { name: 'get_time' }] })['tools'], [
    { name: 'get_weather', description: 'The weather in a city.', input_schema: WEATHER.parameters },
    { name: 'get_time', input_schema: { type: 'object' } },
  ]);
});

feature('tool choice', "is sent in the API's own terms", () => {
  const choose = (choice: unknown): unknown => body({ tools: [WEATHER], tool_choice: choice })['tool_choice'];
  assert.is(body({ tools: [WEATHER] })['tool_choice'], undefined);
  assert.is(choose('auto'), undefined);
  assert.equal(choose('none'), { type: 'none' });
  assert.equal(choose('required'), { type: 'any' });
  assert.equal(choose({ name: 'get_weather' }), { type: 'tool', name: 'get_weather' });
});

test('tool choice without tools: none is accepted, any other is rejected by name', () => {
  assert.is(body({ tool_choice: 'none' })['tool_choice'], undefined);
  refusesByName(wire, OLD, { tool_choice: 'required' }, 'tool_choice');
});

feature('at most one tool call', 'is sent as part of the tool choice', () => {
  const choose = (choice: unknown): unknown =>
    body({ tools: [WEATHER], tool_choice: choice, parallel_tool_calls: false })['tool_choice'];
  assert.equal(choose('auto'), { type: 'auto', disable_parallel_tool_use: true });
  assert.equal(choose('required'), { type: 'any', disable_parallel_tool_use: true });
  assert.equal(choose({ name: 'a' }), { type: 'tool', name: 'a', disable_parallel_tool_use: true });
});

feature('tool results', 'are sent as user content, joined with the next user message', () => {
  assert.equal(sent([USER, CALLED, RESULT, { role: 'user', content: 'Thanks' }]), [
    { role: 'user', content: [text('Hi')] },
    { role: 'assistant', content: [TOOL_USE] },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [text('12 °C')] }, text('Thanks')],
    },
  ]);
});

feature('tool results', 'with ids from another API get ids that this API accepts', () => {
  const [, assistant, user] = sent([
    USER,
    { role: 'assistant', content: '', tool_calls: [{ ...CALL, id: 'functions.get_weather:0' }] },
    { ...RESULT, tool_call_id: 'functions.get_weather:0', content: '' },
  ]) as { content: { id?: string; tool_use_id?: string; content?: unknown }[] }[];
  assert.is(assistant?.content[0]?.id, 'functions_get_weather_0');
  assert.equal(user?.content, [{ type: 'tool_result', tool_use_id: 'functions_get_weather_0' }]);
});

feature('images in tool results', 'are sent inside the tool results', () => {
  const [, , user] = sent([
    USER,
    CALLED,
    { ...RESULT, content: [text('Look'), { type: 'image', media_type: 'image/png', data: PIXEL }] },
  ]) as { content: { content: unknown }[] }[];
  assert.equal(user?.content[0]?.content, [
    text('Look'),
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
  ]);
});

test('a tool result without a call id is rejected by name', () => {
  refusesByName(wire, OLD, { messages: [USER, CALLED, { role: 'tool', content: '1' }] }, 'messages[2].tool_call_id');
});

test('arguments that a model left incomplete or wrote as no object are sent as an object with the text', () => {
  for (const [args, input] of [
    ['', {}],
    ['null', {}],
    ['{"city":', { invalid_arguments: '{"city":' }],
    ['[1]', { invalid_arguments: '[1]' }],
    ['"Bonn"', { invalid_arguments: 'Bonn' }],
  ] as const) {
    const called = { role: 'assistant' as const, content: '', tool_calls: [{ ...CALL, arguments: args }] };
    assert.equal(sent([USER, called]), [
      { role: 'user', content: [text('Hi')] },
      { role: 'assistant', content: [{ ...TOOL_USE, input }] },
    ]);
  }
});

feature('reasoning effort', 'is an effort for models that choose their own reasoning budget', () => {
  const think = (effort: string): unknown[] => {
    const { thinking, output_config: config } = body({ reasoning_effort: effort }, NEW);
    return [thinking, config];
  };
  const adaptive = { type: 'adaptive', display: 'summarized' };
  assert.equal(think('none'), [{ type: 'disabled' }, undefined]);
  assert.equal(think('minimal'), [adaptive, { effort: 'low' }]);
  assert.equal(think('low'), [adaptive, { effort: 'low' }]);
  assert.equal(think('medium'), [adaptive, { effort: 'medium' }]);
  assert.equal(think('high'), [adaptive, { effort: 'high' }]);
  assert.equal(think('xhigh'), [adaptive, { effort: 'xhigh' }]);
  assert.is(body({}, NEW)['thinking'], undefined);
});

feature('reasoning effort', 'is a token budget for older models, and leaves half for the answer', () => {
  const think = (effort: string, max_tokens?: number): unknown =>
    body({ reasoning_effort: effort, ...given({ max_tokens }) })['thinking'];
  const budget = (tokens: number): object => ({ type: 'enabled', budget_tokens: tokens });
  assert.equal(think('none'), { type: 'disabled' });
  assert.equal(think('minimal'), budget(1024));
  assert.equal(think('low'), budget(4096));
  assert.equal(think('medium'), budget(8192));
  assert.equal(think('high'), budget(16_000));
  assert.equal(think('xhigh'), budget(16_000));
  assert.equal(think('xhigh', 100_000), budget(32_768));
  assert.equal(think('high', 1100), budget(1024));
  refusesByName(wire, OLD, { reasoning_effort: 'low', max_tokens: 1024 }, 'max_tokens');
});

test('an optional wish about reasoning has its own budget, and is left out where it does not fit', () => {
  const think = (given: object, model?: string): unknown =>
    body({ reasoning_effort: 'low', reasoning_optional: true, ...given }, model)['thinking'];
  assert.equal(think({ reasoning_budget_tokens: 2000 }), { type: 'enabled', budget_tokens: 2000 });
  assert.equal(think({ reasoning_budget_tokens: 8 }), { type: 'enabled', budget_tokens: 1024 });
  assert.is(think({ reasoning_budget_tokens: 2000, max_tokens: 2000 }), undefined);
  assert.is(think({ max_tokens: 1024 }), undefined);
  assert.equal(think({ reasoning_budget_tokens: 2000 }, NEW), { type: 'adaptive', display: 'summarized' });
});

feature('reasoning effort', 'is off between tool calls, where the API would require the signed reasoning back', () => {
  const messages = [USER, { ...CALLED, reasoning: 'hm' }, RESULT];
  assert.is(body({ messages, reasoning_effort: 'high' })['thinking'], undefined);
  assert.equal(body({ messages, reasoning_effort: 'high' }, NEW)['output_config'], { effort: 'high' });
});

test('a server that requires reasoning back gets it before the tool calls', () => {
  const quirks = { replay_reasoning: true };
  const messages = [USER, { ...CALLED, reasoning: 'hm' }, RESULT];
  const asked = body({ messages, reasoning_effort: 'low' }, 'deepseek-v4-flash', quirks);
  assert.equal((asked['messages'] as object[])[1], {
    role: 'assistant',
    content: [{ type: 'thinking', thinking: 'hm', signature: '' }, TOOL_USE],
  });
  assert.equal(asked['thinking'], { type: 'enabled', budget_tokens: 4096 });
});

test('the generation of a model is read from its name', () => {
  const thinks = (model: string): unknown =>
    (body({ reasoning_effort: 'low' }, model)['thinking'] as { type: string }).type;
  for (const model of [
    'claude-3-7-sonnet-20250219',
    'claude-sonnet-4-20250514',
    'claude-opus-4-1-20250805',
    'claude-haiku-4-5',
    'MiniMax-M3',
  ]) {
    assert.is(thinks(model), 'enabled', model);
    assert.is(body({ sampling: { temperature: 0.5 } }, model)['temperature'], 0.5, model);
  }
  for (const model of ['claude-opus-4-6', 'us.anthropic.claude-sonnet-4-6-v1:0']) {
    assert.is(thinks(model), 'adaptive', model);
    assert.is(body({ sampling: { temperature: 0.5 } }, model)['temperature'], 0.5, model);
  }
  for (const model of [
    'claude-opus-4-7',
    'claude-sonnet-5',
    'claude-fable-5-2',
    'claude-mythos-preview',
    'anthropic/claude-4.8-opus',
  ]) {
    assert.is(thinks(model), 'adaptive', model);
    refusesByName(wire, model, { sampling: { temperature: 0.5 } }, 'temperature');
  }
});

refused('any JSON object', () => {
  refusesByName(wire, NEW, { format: { type: 'json_object' } }, 'format');
});

feature('JSON schema', 'is sent unchanged, also together with an effort', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } }, additionalProperties: false };
  const format = { type: 'json_schema', name: 'answer', schema };
  assert.equal(body({ format }, NEW)['output_config'], { format: { type: 'json_schema', schema } });
  assert.equal(body({ format, reasoning_effort: 'low' }, NEW)['output_config'], {
    effort: 'low',
    format: { type: 'json_schema', schema },
  });
});

refused('grammar', () => {
  refusesByName(wire, NEW, { format: { type: 'grammar', grammar: 'root ::= "a"' } }, 'format');
});

feature('stop strings', 'are sent unchanged', () => {
  assert.equal(body({ stop: ['\n\n', 'END'] })['stop_sequences'], ['\n\n', 'END']);
});

feature('max_tokens', 'is sent unchanged; the API requires it, so there is a default', () => {
  assert.is(body({ max_tokens: 5 })['max_tokens'], 5);
  assert.is(body({})['max_tokens'], 32_000);
});

feature('temperature', 'is sent to models that accept it, and rejected by name for others', () => {
  assert.is(body({ sampling: { temperature: 0 } })['temperature'], 0);
  assert.is(body({ sampling: { temperature: 1 } }, 'qwen')['temperature'], 1);
  assert.is(body({ sampling: { temperature: 1 } }, NEW)['temperature'], undefined);
  refusesByName(wire, NEW, { sampling: { temperature: 0.7 } }, 'temperature');
});

feature('top_p', 'is sent to models that accept it, and rejected by name for others', () => {
  assert.is(body({ sampling: { top_p: 0.9 } })['top_p'], 0.9);
  assert.is(body({ sampling: { top_p: 1 } }, NEW)['top_p'], undefined);
  refusesByName(wire, NEW, { sampling: { top_p: 0.9 } }, 'top_p');
});

feature('top_k', 'is sent to models that accept it, and rejected by name for others', () => {
  assert.is(body({ sampling: { top_k: 40 } })['top_k'], 40);
  assert.is(body({ sampling: { top_k: 0 } }, NEW)['top_k'], undefined);
  refusesByName(wire, NEW, { sampling: { top_k: 40 } }, 'top_k');
});

refused('min_p', () => {
  assert.equal(body({ sampling: { min_p: 0 } }), body({}));
  refusesByName(wire, OLD, { sampling: { min_p: 0.05 } }, 'min_p');
});
refused('repeat_penalty', () => {
  assert.equal(body({ sampling: { repeat_penalty: 1 } }), body({}));
  refusesByName(wire, OLD, { sampling: { repeat_penalty: 1.1 } }, 'repeat_penalty');
});
refused('frequency_penalty', () => {
  assert.equal(body({ sampling: { frequency_penalty: 0 } }), body({}));
  refusesByName(wire, OLD, { sampling: { frequency_penalty: 0.5 } }, 'frequency_penalty');
});
refused('presence_penalty', () => {
  assert.equal(body({ sampling: { presence_penalty: 0 } }), body({}));
  refusesByName(wire, OLD, { sampling: { presence_penalty: -0.5 } }, 'presence_penalty');
});
refused('other samplers', () => {
  for (const { name, at_work, idle } of LOCAL_SAMPLING) {
    assert.equal(body({ sampling: idle }), body({}));
    refusesByName(wire, OLD, { sampling: at_work }, name);
  }
});
refused('seed', () => {
  refusesByName(wire, OLD, { sampling: { seed: 0 } }, 'seed');
});
refused('logit_bias', () => {
  assert.equal(body({ sampling: { logit_bias: [] } }), body({}));
  refusesByName(wire, OLD, { sampling: { logit_bias: [[1, 2]] } }, 'logit_bias');
});
refused('logprobs', () => {
  refusesByName(wire, OLD, { logprobs: 0 }, 'logprobs');
});

test('an unsupported parameter is rejected under the name that the caller used, ours or that of the API', () => {
  const quirks = { unsupported: ['tools', 'top_k', 'stop_sequences', 'output_config'] };
  refusesByName(wire, OLD, { tools: [WEATHER] }, 'tools', quirks);
  refusesByName(wire, OLD, { sampling: { top_k: 40 } }, 'top_k', quirks);
  refusesByName(wire, OLD, { stop: ['END'] }, 'stop_sequences', quirks);
  refusesByName(wire, OLD, { format: { type: 'json_schema', schema: {} } }, 'output_config', quirks);
  assert.equal(body({ tools: [], stop: [] }, OLD, quirks), body({}));
  const content = [{ type: 'image_url', url: 'https://a.example/b' }];
  refusesByName(wire, OLD, { messages: [{ role: 'user', content }] }, 'images', { unsupported: ['images'] });
});

feature('list of models', 'is read page by page', () => {
  const target = { key: KEY, quirks: {} };
  assert.equal(wire.listModels(target, null), {
    path: '/v1/models?limit=1000',
    headers: { 'anthropic-version': '2023-06-01', 'x-api-key': KEY },
    body: null,
  });
  assert.is(wire.listModels(target, 'a b')?.path, '/v1/models?limit=1000&after_id=a+b');
  assert.equal(wire.readModels(MODELS_PAGE), {
    models: ['claude-sonnet-5-5', 'claude-haiku-5-5'],
    after: 'claude-haiku-5-5',
  });
  assert.is(wire.readModels({ ...MODELS_PAGE, has_more: false }).after, null);
});

test('a server may have its own path for the model list, or no list', () => {
  assert.is(wire.listModels({ key: null, quirks: { models_path: '/models' } }, null)?.path, '/models?limit=1000');
  assert.is(wire.listModels({ key: null, quirks: { models_path: null } }, null), null);
  assert.is(thrown(() => wire.readModels({ models: [] })).code, 'PROVIDER_FAILED');
});

refused('embeddings', () => {
  assert.is(wire.embeddings, null);
});

refused('token ids to embed', () => {
  assert.is(wire.embeddings, null);
});

refused('reranking', () => {
  assert.is(wire.rerank, null);
});

test.run();
