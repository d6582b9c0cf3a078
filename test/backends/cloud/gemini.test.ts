/** Gemini's native API: the requests sent, and how recorded answers are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gemini as wire } from '../../../src/backends/cloud/wires/gemini/gemini.ts';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import { featuresOf, LOCAL_SAMPLING } from './features.ts';
import {
  BAD_KEY,
  BLOCKED_PROMPT,
  CACHED,
  CALLS_WITHOUT_IDS,
  ending,
  HELLO,
  MODELS_PAGE,
  ODD,
  OVERLOADED,
  THOUGHT_AND_CALLS,
} from './recorded-gemini.ts';
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

const { feature, refused } = featuresOf('gemini', test);

/** Takes a reasoning budget in tokens, and requires no thought signatures. */
const OLD = 'gemini-2.5-flash';
const NEW = 'gemini-3.8-flash';

const body = (wish: Parameters<typeof bodyOf>[2], model = NEW, quirks: Quirks = {}): Record<string, unknown> =>
  bodyOf(wire, model, wish, quirks);
const config = (wish: Parameters<typeof bodyOf>[2], model = NEW): unknown => body(wish, model)['generationConfig'];
const sent = (messages: unknown, model = NEW): unknown => body({ messages }, model)['contents'];

const CALL = { id: 'c1', name: 'get_weather', arguments: '{"city":"Bonn"}' };
const CALLED = { role: 'assistant', content: '', tool_calls: [CALL] };
const FUNCTION_CALL = { functionCall: { id: 'c1', name: 'get_weather', args: { city: 'Bonn' } } };
const RESULT = { role: 'tool', tool_call_id: 'c1', content: '12 °C' };
const SKIP = 'skip_thought_signature_validator';

test('a request has its path, the key and only the fields that were asked for', () => {
  assert.equal(ask(wire, NEW, {}), {
    path: '/models/gemini-3.8-flash:streamGenerateContent?alt=sse',
    headers: { 'x-goog-api-key': KEY },
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  });
});

test('a model name may have its "models/" prefix, and no name escapes that path', () => {
  const path = (model: string): string => ask(wire, model, {}).path.replace(':streamGenerateContent?alt=sse', '');
  assert.is(path('models/x'), '/models/x');
  assert.is(path('tunedModels/x'), '/tunedModels/x');
  assert.is(path('../files/x?y#z'), '/models/..%2Ffiles%2Fx%3Fy%23z');
});

test('a server may name its own header for the key', () => {
  assert.equal(ask(wire, NEW, {}, { key_header: 'authorization' }).headers, { authorization: `Bearer ${KEY}` });
});

feature('text', 'arrives unchanged', () => {
  const events = answer(wire, HELLO);
  assert.equal(events[0], { type: 'started', model: NEW });
  assert.is(joined(events).text, 'Hello! 👋 Grüße');
});

test('an event without data yields nothing', () => {
  assert.equal(wire.reader({}).read({ name: '', data: '' }), []);
});

test('alternatives, sources and server-side tools are ignored', () => {
  const events = answer(wire, ODD);
  assert.equal(joined(events), { text: 'Found.', reasoning: '', calls: [] });
  assert.is(finishOf(events), 'stop');
});

feature('system messages', 'are joined at the front, wherever they were', () => {
  const asked = body({
    messages: [{ role: 'system', content: 'Be brief.' }, USER, { role: 'system', content: 'Be polite.' }],
  });
  assert.equal(asked['systemInstruction'], { parts: [{ text: 'Be brief.\n\nBe polite.' }] });
  assert.equal(asked['contents'], [{ role: 'user', parts: [{ text: 'Hi' }] }]);
});

feature('several turns', 'alternate: consecutive messages of one role are joined, and nothing empty is sent', () => {
  assert.equal(
    sent([
      { role: 'user', content: 'one' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'two' },
          { type: 'text', text: '' },
        ],
      },
      { role: 'assistant', content: '' },
      { role: 'assistant', content: 'three', reasoning: 'hm' },
      { role: 'user', content: 'four' },
    ]),
    [
      { role: 'user', parts: [{ text: 'one' }, { text: 'two' }] },
      { role: 'model', parts: [{ text: 'three' }] },
      { role: 'user', parts: [{ text: 'four' }] },
    ],
  );
});

test('a conversation of only a system message is rejected by name', () => {
  refusesByName(wire, NEW, { messages: [{ role: 'system', content: 'Be brief.' }] }, 'messages');
});

feature('images', 'are sent inline as base64', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'image', media_type: 'image/png', data: PIXEL }] }]), [
    { role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: PIXEL } }] },
  ]);
});

feature(
  'images by URL',
  'are sent as URLs whose extension gives the type; an unknown extension is rejected by name',
  () => {
    const image = (url: string): object[] => [{ role: 'user', content: [{ type: 'image_url', url }] }];
    assert.equal(sent(image('https://a.example/b.JPG?sig=1.png')), [
      { role: 'user', parts: [{ fileData: { mimeType: 'image/jpeg', fileUri: 'https://a.example/b.JPG?sig=1.png' } }] },
    ]);
    for (const url of [
      'https://a.example/b',
      'https://a.example/b.html',
      'https://a.example/b.constructor',
      'https://png',
    ]) {
      refusesByName(wire, NEW, { messages: image(url) }, 'messages[0].content[0].url');
    }
  },
);

feature('tools', 'are sent with their schema', () => {
  assert.equal(body({ tools: [WEATHER, { name: 'get_time' }] })['tools'], [
    {
      functionDeclarations: [
        { name: 'get_weather', description: 'The weather in a city.', parametersJsonSchema: WEATHER.parameters },
        { name: 'get_time' },
      ],
    },
  ]);
});

feature('tools', 'are called under the ids that the model gave', () => {
  const events = answer(wire, THOUGHT_AND_CALLS);
  assert.equal(joined(events).calls, [
    { id: 'a1b2c3d4', name: 'get_weather', arguments: '{"city":"Köln"}' },
    { id: 'e5f6', name: 'get_time', arguments: '{}' },
  ]);
  assert.is(finishOf(events), 'tool_calls');
});

feature('tools', 'are called under stable ids of ours if the model gives none', () => {
  const { calls } = joined(answer(wire, CALLS_WITHOUT_IDS));
  assert.equal(calls, [
    { id: 'call_sN8UafDwJ4TWz7IP_0', name: 'get_weather', arguments: '{"city":"Köln"}' },
    { id: 'call_sN8UafDwJ4TWz7IP_1', name: 'get_weather', arguments: '{"city":"Bonn"}' },
    { id: 'call_sN8UafDwJ4TWz7IP_2', name: 'get_time', arguments: '{}' },
  ]);
});

feature('tool choice', "is sent in the API's own terms", () => {
  const choose = (choice: unknown): unknown => body({ tools: [WEATHER], tool_choice: choice })['toolConfig'];
  assert.is(body({ tools: [WEATHER] })['toolConfig'], undefined);
  assert.is(choose('auto'), undefined);
  assert.equal(choose('none'), { functionCallingConfig: { mode: 'NONE' } });
  assert.equal(choose('required'), { functionCallingConfig: { mode: 'ANY' } });
  assert.equal(choose({ name: 'get_weather' }), {
    functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['get_weather'] },
  });
  refusesByName(wire, NEW, { tool_choice: 'required' }, 'tool_choice');
});

refused('at most one tool call', () => {
  refusesByName(wire, NEW, { tools: [WEATHER], parallel_tool_calls: false }, 'parallel_tool_calls');
  assert.equal(body({ parallel_tool_calls: false }), body({}));
});

feature('tool results', 'are sent under the function name, which is looked up by the call id', () => {
  assert.equal(sent([USER, CALLED, RESULT, { role: 'user', content: 'Thanks' }], OLD), [
    { role: 'user', parts: [{ text: 'Hi' }] },
    { role: 'model', parts: [FUNCTION_CALL] },
    {
      role: 'user',
      parts: [
        { functionResponse: { id: 'c1', name: 'get_weather', response: { output: '12 °C' } } },
        { text: 'Thanks' },
      ],
    },
  ]);
});

feature('tool results', 'belong to the last call with that id', () => {
  const again = { role: 'assistant', content: '', tool_calls: [{ id: 'c1', name: 'get_time', arguments: '{}' }] };
  const turns = sent([USER, CALLED, RESULT, again, RESULT]) as {
    parts: { functionResponse?: { name: string } }[];
  }[];
  assert.equal(
    turns.flatMap(({ parts }) => parts.flatMap((part) => part.functionResponse?.name ?? [])),
    ['get_weather', 'get_time'],
  );
});

test('a tool result without a matching call is rejected by name', () => {
  refusesByName(wire, NEW, { messages: [USER, RESULT] }, 'messages[1].tool_call_id');
  refusesByName(wire, NEW, { messages: [USER, CALLED, { role: 'tool', content: '1' }] }, 'messages[2].tool_call_id');
});

test('the first call of a turn carries the placeholder for its missing signature', () => {
  const two = { ...CALLED, tool_calls: [CALL, { ...CALL, id: 'c2' }] };
  const [, turn] = sent([USER, two]) as object[];
  assert.equal(turn, {
    role: 'model',
    parts: [
      { ...FUNCTION_CALL, thoughtSignature: SKIP },
      { functionCall: { ...FUNCTION_CALL.functionCall, id: 'c2' } },
    ],
  });
  assert.not.match(JSON.stringify(sent([USER, two], OLD)), SKIP);
  assert.match(JSON.stringify(sent([USER, two], 'gemini-flash-latest')), SKIP);
});

feature('images in tool results', 'are sent inside the tool results', () => {
  const content = [
    { type: 'image', media_type: 'image/png', data: PIXEL },
    { type: 'text', text: 'Look' },
  ];
  const turns = sent([USER, CALLED, { ...RESULT, content }]) as { parts: object[] }[];
  assert.equal(turns[2]?.parts[0], {
    functionResponse: {
      id: 'c1',
      name: 'get_weather',
      response: { output: 'Look' },
      parts: [{ inlineData: { mimeType: 'image/png', data: PIXEL } }],
    },
  });
});

feature('reasoning effort', 'is a level from Gemini 3 on, and a token budget before', () => {
  const think = (effort: string, model: string): unknown => config({ reasoning_effort: effort }, model);
  const level = (name: string): object => ({ thinkingConfig: { thinkingLevel: name, includeThoughts: true } });
  assert.equal(think('minimal', NEW), level('MINIMAL'));
  assert.equal(think('low', NEW), level('LOW'));
  assert.equal(think('medium', NEW), level('MEDIUM'));
  assert.equal(think('high', NEW), level('HIGH'));
  assert.equal(think('xhigh', NEW), level('HIGH'));
  refusesByName(wire, NEW, { reasoning_effort: 'none' }, 'reasoning_effort');
  assert.is(config({ reasoning_effort: 'none', reasoning_optional: true }, NEW), undefined);

  const budget = (tokens: number): object => ({
    thinkingConfig: { thinkingBudget: tokens, includeThoughts: tokens > 0 },
  });
  assert.equal(think('none', OLD), budget(0));
  assert.equal(think('minimal', OLD), budget(1024));
  assert.equal(think('low', OLD), budget(1024));
  assert.equal(think('medium', OLD), budget(8192));
  assert.equal(think('high', OLD), budget(24_576));
  assert.equal(think('xhigh', OLD), budget(24_576));
});

feature('reasoning output', 'separate from the text', () => {
  const { text, reasoning } = joined(answer(wire, THOUGHT_AND_CALLS));
  assert.is(reasoning, '**Weather**\n\nThe user wants the weather.');
  assert.is(text, "Let's look.");
});

feature('any JSON object', 'is sent as a response format', () => {
  assert.equal(config({ format: { type: 'json_object' } }), { responseMimeType: 'application/json' });
});

feature('JSON schema', 'is sent unchanged', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  assert.equal(config({ format: { type: 'json_schema', schema } }), {
    responseMimeType: 'application/json',
    responseJsonSchema: schema,
  });
});

refused('grammar', () => {
  refusesByName(wire, NEW, { format: { type: 'grammar', grammar: 'root ::= "a"' } }, 'format');
});

feature('stop strings', 'are sent unchanged', () => {
  assert.equal(config({ stop: ['\n\n', 'END'] }), { stopSequences: ['\n\n', 'END'] });
});
feature('max_tokens', 'is sent unchanged', () => {
  assert.equal(config({ max_tokens: 5 }), { maxOutputTokens: 5 });
});
feature('temperature', 'is sent unchanged', () => {
  assert.equal(config({ sampling: { temperature: 0 } }), { temperature: 0 });
});
feature('top_p', 'is sent unchanged, 1 too, because models have other defaults', () => {
  assert.equal(config({ sampling: { top_p: 1 } }), { topP: 1 });
});
feature('top_k', 'is sent unchanged; 0 (no limit) is rejected by name', () => {
  assert.equal(config({ sampling: { top_k: 40 } }), { topK: 40 });
  refusesByName(wire, NEW, { sampling: { top_k: 0 } }, 'top_k');
});
feature('frequency_penalty', 'is sent unchanged', () => {
  assert.equal(config({ sampling: { frequency_penalty: 0.5 } }), { frequencyPenalty: 0.5 });
});
feature('presence_penalty', 'is sent unchanged', () => {
  assert.equal(config({ sampling: { presence_penalty: -0.5 } }), { presencePenalty: -0.5 });
});
refused('other samplers', () => {
  for (const { name, at_work, idle } of LOCAL_SAMPLING) {
    assert.equal(body({ sampling: idle }), body({}));
    refusesByName(wire, NEW, { sampling: at_work }, name);
  }
});
feature('seed', 'is sent unchanged', () => {
  assert.equal(config({ sampling: { seed: 0 } }), { seed: 0 });
});
refused('min_p', () => {
  assert.equal(body({ sampling: { min_p: 0 } }), body({}));
  refusesByName(wire, NEW, { sampling: { min_p: 0.05 } }, 'min_p');
});
refused('repeat_penalty', () => {
  assert.equal(body({ sampling: { repeat_penalty: 1 } }), body({}));
  refusesByName(wire, NEW, { sampling: { repeat_penalty: 1.1 } }, 'repeat_penalty');
});
refused('logit_bias', () => {
  refusesByName(wire, NEW, { sampling: { logit_bias: [[1, 2]] } }, 'logit_bias');
});
refused('logprobs', () => {
  refusesByName(wire, NEW, { logprobs: 0 }, 'logprobs');
});

test('an unsupported parameter is rejected under the name that the caller used, ours or that of the API', () => {
  const quirks = { unsupported: ['tools', 'seed', 'stopSequences'] };
  refusesByName(wire, NEW, { tools: [WEATHER] }, 'tools', quirks);
  refusesByName(wire, NEW, { sampling: { seed: 1 } }, 'seed', quirks);
  refusesByName(wire, NEW, { stop: ['END'] }, 'stopSequences', quirks);
  assert.equal(body({ tools: [], stop: [] }, NEW, quirks), body({}));
});

feature('usage', 'counts reasoning as output; the last figures count', () => {
  assert.equal(usageOf(answer(wire, HELLO)), {
    input_tokens: 4,
    output_tokens: 26,
    cached_tokens: 0,
    reasoning_tokens: 20,
  });
});

feature('cached tokens', 'count as input', () => {
  assert.equal(usageOf(answer(wire, CACHED)), {
    input_tokens: 2132,
    output_tokens: 12,
    cached_tokens: 2000,
    reasoning_tokens: 7,
  });
});

feature('finish reasons', 'are mapped to ours', () => {
  const finish = (reason: string): string | undefined => finishOf(answer(wire, ending(reason)));
  assert.is(finish('STOP'), 'stop');
  assert.is(finish('MAX_TOKENS'), 'length');
  for (const reason of ['SAFETY', 'RECITATION', 'LANGUAGE', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY'])
    assert.is(finish(reason), 'content_filter', reason);
});

feature('finish reasons', 'report a blocked prompt', () => {
  const events = answer(wire, BLOCKED_PROMPT);
  assert.is(finishOf(events), 'content_filter');
  assert.equal(usageOf(events), { input_tokens: 8, output_tokens: 0, cached_tokens: 0 });
});

feature('errors in the stream', "are reported with the provider's message", () => {
  const error = thrown(() => answer(wire, [...HELLO.slice(0, 1), OVERLOADED]));
  assert.is(error.code, 'BUSY');
  assert.is(error.retryable, true);
  assert.is(error.quote, 'The model is overloaded. Please try again later.');
  const spent = { error: { code: 429, message: 'Quota', status: 'RESOURCE_EXHAUSTED' } };
  assert.is(thrown(() => answer(wire, [[undefined, spent]])).code, 'BUSY');
});

feature('errors in the stream', 'may be non-retryable', () => {
  for (const reason of ['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL', 'OTHER', 'BRAND_NEW', 'toString']) {
    const error = thrown(() => answer(wire, ending(reason)));
    assert.is(error.code, 'PROVIDER_FAILED');
    assert.is(error.quote, reason);
    assert.not.match(JSON.stringify(error.toRecord()), 'secret');
  }
});

feature('interrupted answers', 'are failures, wherever they are cut', () => {
  for (const whole of [HELLO, THOUGHT_AND_CALLS]) failsCutAnywhere(wire, whole);
});

test('data that is not of this API is a failure, and its text is not repeated', () => {
  refusesWhatIsNotTheApi(wire, ['{"candidates":"secret"}', '{"candidates":[{"content":"secret"}]}']);
});

test('an error body gives the message and the reason, preferring the details', () => {
  assert.equal(wire.error(BAD_KEY), {
    message: 'API key not valid. Please pass a valid API key.',
    code: 'API_KEY_INVALID',
  });
  const busy = { error: { code: 503, message: 'Overloaded', status: 'UNAVAILABLE' } };
  assert.equal(wire.error(busy), { message: 'Overloaded', code: 'UNAVAILABLE' });
  assert.equal(wire.error([busy]), { message: 'Overloaded', code: 'UNAVAILABLE' });
  for (const other of [undefined, null, [], 'x', { error: 'x' }, { candidates: [] }])
    assert.is(wire.error(other), null);
});

feature('list of models', 'is read page by page, without the "models/" prefix', () => {
  const target = { key: KEY, quirks: {} };
  assert.equal(wire.listModels(target, null), {
    path: '/models?pageSize=1000',
    headers: { 'x-goog-api-key': KEY },
    body: null,
  });
  assert.is(wire.listModels(target, 'Ch9=')?.path, '/models?pageSize=1000&pageToken=Ch9%3D');
  assert.equal(wire.readModels(MODELS_PAGE), {
    models: ['gemini-3.8-flash', 'gemini-embedding-001', 'tunedModels/mine'],
    after: 'Ch9tb2RlbHM=',
  });
  assert.equal(wire.readModels({}), { models: [], after: null });
  assert.is(wire.listModels({ key: null, quirks: { models_path: null } }, null), null);
  assert.is(thrown(() => wire.readModels({ models: 1 })).code, 'PROVIDER_FAILED');
});

test.run();
