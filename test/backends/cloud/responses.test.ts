/** OpenAI's Responses API: the requests sent, and how recorded answers are read. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import { chatCompletions } from '../../../src/backends/cloud/wires/chat-completions/chat-completions.ts';
import { responses as wire } from '../../../src/backends/cloud/wires/responses/responses.ts';
import { featuresOf, LOCAL_SAMPLING } from './features.ts';
import { MODELS_PAGE } from './recorded-chat-completions.ts';
import {
  CACHED,
  completed,
  CREATED,
  event,
  FAILED,
  HELLO,
  incomplete,
  MODEL,
  REFUSED,
  summary,
  text,
  THOUGHT_AND_CALLS,
  TOO_LONG,
} from './recorded-responses.ts';
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

const { feature, refused } = featuresOf('responses', test);

type Wish = Parameters<typeof bodyOf>[2];

const body = (wish: Wish, quirks: Quirks = {}): Record<string, unknown> => bodyOf(wire, MODEL, wish, quirks);
const sent = (messages: unknown): unknown => body({ messages })['input'];
const refuses = (wish: Wish, param: string, quirks: Quirks = {}): void => {
  refusesByName(wire, MODEL, wish, param, quirks);
};

const IMAGE = { type: 'image', media_type: 'image/png', data: PIXEL };
const SENT_IMAGE = { type: 'input_image', detail: 'auto', image_url: `data:image/png;base64,${PIXEL}` };
const CALL = { id: 'call_1', name: 'get_weather', arguments: '{"city": "Bonn"}' };
const CALLED = { role: 'assistant', content: '', tool_calls: [CALL] };
const SENT_CALL = { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"city": "Bonn"}' };
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: '12 °C' };

test('a request has its path, the key and only the fields that were asked for, and is not stored there', () => {
  assert.equal(ask(wire, MODEL, {}), {
    path: '/responses',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: MODEL, input: [USER], stream: true, store: false },
  });
});

test('a server may name its own header for the key', () => {
  assert.equal(ask(wire, MODEL, {}, { key_header: 'api-key' }).headers, { 'api-key': KEY });
});

feature('text', 'arrives unchanged', () => {
  const events = answer(wire, HELLO);
  assert.equal(events[0], { type: 'started', model: MODEL });
  assert.is(joined(events).text, 'Hello! 👋 Grüße');
});

test('an event without data and an unknown event yield nothing', () => {
  assert.equal(wire.reader({}).read({ name: 'response.queued', data: '' }), []);
  assert.equal(joined(answer(wire, [CREATED, event('response.brand_new', { delta: 'x' }), completed()])), {
    text: '',
    reasoning: '',
    calls: [],
  });
});

test('the name of an event may be only outside its data', () => {
  const events = HELLO.map(([name, data]) => [name, { ...(data as object), type: undefined }] as const);
  assert.equal(answer(wire, events), answer(wire, HELLO));
});

feature('system messages', 'keep their position', () => {
  const messages = [{ role: 'system', content: 'Be brief.' }, USER, { role: 'system', content: 'Be polite.' }];
  assert.equal(sent(messages), messages);
});

test('an image in a system message is rejected, naming its place', () => {
  refuses({ messages: [USER, { role: 'system', content: [IMAGE] }] }, 'messages[1].content');
});

feature('several turns', 'are sent one by one, without reasoning', () => {
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
      { role: 'user', content: parts.map((part) => ({ ...part, type: 'input_text' })) },
    ],
  );
});

feature('images', 'are sent as data URLs', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'text', text: 'What?' }, IMAGE] }]), [
    { role: 'user', content: [{ type: 'input_text', text: 'What?' }, SENT_IMAGE] },
  ]);
});

feature('images by URL', 'are sent as URLs', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'image_url', url: 'https://a.example/b' }] }]), [
    { role: 'user', content: [{ type: 'input_image', detail: 'auto', image_url: 'https://a.example/b' }] },
  ]);
});

feature('tools', 'are sent with their schema; a tool without one gets an empty schema', () => {
  assert.equal(body({ tools: [WEATHER, { name: 'get_time' }] })['tools'], [
    { type: 'function', ...WEATHER, strict: false },
    { type: 'function', name: 'get_time', parameters: {}, strict: false },
  ]);
});

feature('tools', 'are called with arguments that arrive in pieces or at once', () => {
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
  assert.equal(choose({ name: 'get_weather' }), { type: 'function', name: 'get_weather' });
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

feature('tool results', 'are sent as items, like the calls, with the id of the call', () => {
  const output = { type: 'function_call_output', call_id: 'call_1', output: '12 °C' };
  assert.equal(sent([USER, CALLED, RESULT]), [USER, SENT_CALL, output]);
  assert.equal(sent([USER, { ...CALLED, content: 'I look.' }, RESULT]), [
    USER,
    { role: 'assistant', content: 'I look.' },
    SENT_CALL,
    output,
  ]);
});

test('a tool result without a call id is rejected by name', () => {
  refuses({ messages: [USER, CALLED, { role: 'tool', content: '1' }] }, 'messages[2].tool_call_id');
});

feature('images in tool results', 'are sent inside the tool results', () => {
  const content = [{ type: 'text', text: 'Look' }, IMAGE];
  assert.equal((sent([USER, CALLED, { ...RESULT, content }]) as object[])[2], {
    type: 'function_call_output',
    call_id: 'call_1',
    output: [{ type: 'input_text', text: 'Look' }, SENT_IMAGE],
  });
});

feature('reasoning effort', 'is sent unchanged, together with a request for a reasoning summary', () => {
  for (const effort of ['minimal', 'low', 'medium', 'high', 'xhigh']) {
    assert.equal(body({ reasoning_effort: effort })['reasoning'], { effort, summary: 'auto' });
  }
  assert.equal(body({ reasoning_effort: 'none' })['reasoning'], { effort: 'none' });
});

feature('reasoning output', 'separate from the text, each part as a paragraph', () => {
  const { text: words, reasoning } = joined(answer(wire, THOUGHT_AND_CALLS));
  assert.is(reasoning, '**Weather**\n\nThe user wants the weather.');
  assert.is(words, "Let's look.");
  const thoughts = [summary('One', 0, 0), summary('two', 0, 2), summary('.', 0, 2)];
  assert.is(joined(answer(wire, [CREATED, ...thoughts, completed()])).reasoning, 'One\n\ntwo.');
});

feature('reasoning output', 'in full, from servers that send it unsummarised', () => {
  const thoughts = ['h', 'm'].map((delta) => event('response.reasoning_text.delta', { content_index: 0, delta }));
  assert.is(joined(answer(wire, [CREATED, ...thoughts, completed()])).reasoning, 'hm');
});

feature('any JSON object', 'is sent as a text format', () => {
  assert.equal(body({ format: { type: 'json_object' } })['text'], { format: { type: 'json_object' } });
});

feature('JSON schema', 'is sent unchanged, and as strict unless the request says otherwise', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  const textOf = (more: object): unknown => body({ format: { type: 'json_schema', schema, ...more } })['text'];
  assert.equal(textOf({}), { format: { type: 'json_schema', name: 'answer', schema, strict: true } });
  assert.equal(textOf({ name: 'a', strict: false }), {
    format: { type: 'json_schema', name: 'a', schema, strict: false },
  });
});

refused('grammar', () => {
  refuses({ format: { type: 'grammar', grammar: 'root ::= "a"' } }, 'format');
});
refused('stop strings', () => {
  refuses({ stop: ['END'] }, 'stop');
});
feature('max_tokens', 'is sent under the name that this API uses', () => {
  assert.is(body({ max_tokens: 5 })['max_output_tokens'], 5);
});
feature('temperature', 'is sent unchanged', () => {
  assert.is(body({ sampling: { temperature: 0 } })['temperature'], 0);
});
feature('top_p', 'is sent unchanged, 1 too, because models have other defaults', () => {
  assert.is(body({ sampling: { top_p: 1 } })['top_p'], 1);
});
refused('top_k', () => {
  assert.equal(body({ sampling: { top_k: 0 } }), body({}));
  refuses({ sampling: { top_k: 40 } }, 'top_k');
});
refused('min_p', () => {
  assert.equal(body({ sampling: { min_p: 0 } }), body({}));
  refuses({ sampling: { min_p: 0.05 } }, 'min_p');
});
refused('repeat_penalty', () => {
  assert.equal(body({ sampling: { repeat_penalty: 1 } }), body({}));
  refuses({ sampling: { repeat_penalty: 1.1 } }, 'repeat_penalty');
});
refused('frequency_penalty', () => {
  assert.equal(body({ sampling: { frequency_penalty: 0 } }), body({}));
  refuses({ sampling: { frequency_penalty: 0.5 } }, 'frequency_penalty');
});
refused('presence_penalty', () => {
  assert.equal(body({ sampling: { presence_penalty: 0 } }), body({}));
  refuses({ sampling: { presence_penalty: -0.5 } }, 'presence_penalty');
});
refused('other samplers', () => {
  for (const { name, at_work, idle } of LOCAL_SAMPLING) {
    assert.equal(body({ sampling: idle }), body({}));
    refuses({ sampling: at_work }, name);
  }
});
refused('seed', () => {
  refuses({ sampling: { seed: 0 } }, 'seed');
});
refused('logit_bias', () => {
  assert.equal(body({ sampling: { logit_bias: [] } }), body({}));
  refuses({ sampling: { logit_bias: [[1, 2]] } }, 'logit_bias');
});

feature('logprobs', 'are requested', () => {
  const asked = body({ logprobs: 2 });
  assert.is(asked['top_logprobs'], 2);
  assert.equal(asked['include'], ['message.output_text.logprobs']);
});
feature('logprobs', 'arrive with the text that they belong to', () => {
  const logprobs = [{ token: 'é', logprob: -0.5, top_logprobs: [{ token: 'e', logprob: -1 }] }];
  const events = answer(wire, [CREATED, event('response.output_text.delta', { delta: 'é', logprobs }), completed()]);
  assert.equal(events[1], {
    type: 'text',
    text: 'é',
    logprobs: [{ token: 'é', bytes: [195, 169], logprob: -0.5, top: [{ token: 'e', bytes: [101], logprob: -1 }] }],
  });
});

test('an unsupported parameter is rejected under the name that the caller used, ours or that of the API', () => {
  const quirks = { unsupported: ['tools', 'temperature', 'max_output_tokens', 'images'] };
  refuses({ tools: [WEATHER] }, 'tools', quirks);
  refuses({ sampling: { temperature: 0.5 } }, 'temperature', quirks);
  refuses({ max_tokens: 5 }, 'max_output_tokens', quirks);
  refuses({ messages: [{ role: 'user', content: [IMAGE] }] }, 'images', quirks);
  assert.equal(body({ tools: [], stop: [] }, quirks), body({}));
});

feature('usage', 'counts reasoning as output', () => {
  assert.equal(usageOf(answer(wire, HELLO)), {
    input_tokens: 25,
    output_tokens: 15,
    reasoning_tokens: 8,
    cached_tokens: 0,
  });
});

test('missing usage figures are not a failure', () => {
  const events = answer(wire, [CREATED, text('Hello'), completed(null)]);
  assert.is(finishOf(events), 'stop');
  assert.is(usageOf(events), undefined);
});

feature('cached tokens', 'count as input', () => {
  assert.equal(usageOf(answer(wire, CACHED)), { input_tokens: 2132, output_tokens: 12, cached_tokens: 2000 });
});

feature('finish reasons', 'are mapped to ours', () => {
  const cut = (reason: string): string | undefined =>
    finishOf(answer(wire, [CREATED, text('Hello'), incomplete(reason)]));
  assert.is(finishOf(answer(wire, HELLO)), 'stop');
  assert.is(cut('max_output_tokens'), 'length');
  assert.is(cut('content_filter'), 'content_filter');
});

feature('finish reasons', 'report a withheld answer', () => {
  const events = answer(wire, REFUSED);
  assert.is(joined(events).text, 'No.');
  assert.is(finishOf(events), 'content_filter');
});

feature('errors in the stream', "are reported with the provider's message", () => {
  const error = thrown(() => answer(wire, [...HELLO.slice(0, 5), FAILED]));
  assert.is(error.code, 'BUSY');
  assert.is(error.retryable, true);
  assert.is(error.quote, 'Slow down');
  assert.is(thrown(() => answer(wire, [CREATED, TOO_LONG])).code, 'CONTEXT_OVERFLOW');
  const wrapped = { error: { code: 'rate_limit_exceeded', message: 'Slow down' } };
  assert.is(thrown(() => answer(wire, [['error', wrapped]])).code, 'BUSY');
});

feature('interrupted answers', 'are failures, wherever they are cut', () => {
  for (const whole of [HELLO, THOUGHT_AND_CALLS, REFUSED]) failsCutAnywhere(wire, whole);
});

test('data that is not of this API is a failure, and its text is not repeated', () => {
  refusesWhatIsNotTheApi(wire, ['{"secret":1}', '{"type":"response.output_text.delta","delta":{"secret":1}}']);
  const nameless = event('response.function_call_arguments.delta', { output_index: 0, delta: '{}' });
  assert.is(thrown(() => answer(wire, [CREATED, nameless, completed()])).code, 'PROVIDER_FAILED');
});

feature('list of models', 'is read as in Chat Completions', () => {
  assert.equal(wire.listModels({ key: KEY, quirks: {} }, null), {
    path: '/models',
    headers: { authorization: `Bearer ${KEY}` },
    body: null,
  });
  assert.equal(wire.readModels(MODELS_PAGE), { models: ['gpt-6.1-terra', 'openai/gpt-oss-120b'], after: null });
});

feature('embeddings', 'are those of Chat Completions', () => {
  assert.is(wire.embeddings, chatCompletions.embeddings);
});

feature('token ids to embed', 'are sent as in Chat Completions', () => {
  assert.is(wire.embeddings, chatCompletions.embeddings);
});

feature('reranking', 'is that of Chat Completions', () => {
  assert.is(wire.rerank, chatCompletions.rerank);
});

test.run();
