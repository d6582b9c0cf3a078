/** Chat Completions, OpenAI's and that of its many speakers: what is sent, and what recorded answers mean. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCompletions as wire } from '../../../src/backends/cloud/chat-completions.ts';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import type { WireEvent } from '../../../src/backends/cloud/wire.ts';
import type { FinishReason } from '../../../src/protocol/generate.ts';
import { chunk } from './cloud-support.ts';
import { featuresOf } from './features.ts';
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
  type Recorded,
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

test('a request has its path, the key and no field that nobody wished for', () => {
  assert.equal(ask(wire, 'm', {}), {
    path: '/chat/completions',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: 'm', messages: [USER], stream: true, stream_options: { include_usage: true } },
  });
});

test('a server has its own header for the key, and its own headers', () => {
  assert.equal(ask(wire, 'm', {}, { key_header: 'api-key' }).headers, { 'api-key': KEY });
  assert.equal(ask(wire, 'm', {}, { headers: { 'x-title': 'svc' } }).headers, {
    'x-title': 'svc',
    authorization: `Bearer ${KEY}`,
  });
});

test('a request without a key has no header for one', () => {
  const request = wire.request({ messages: [USER], sampling: {}, stop: [] }, { model: 'm', key: null, quirks: {} });
  assert.equal(request.headers, {});
});

feature('text', 'arrives as it was written', () => {
  const events = answer(wire, HELLO);
  assert.equal(events[0], { type: 'started', model: MODEL });
  assert.is(joined(events).text, 'Hello! 👋 Grüße');
});

test('an event without data is none, and so is the word for the end', () => {
  for (const data of ['', '[DONE]']) assert.equal(wire.reader({}).read({ name: '', data }), []);
});

feature('system messages', 'stay where they stood', () => {
  const messages = [{ role: 'system', content: 'Be brief.' }, USER, { role: 'system', content: 'Be polite.' }];
  assert.equal(sent(messages), messages);
});

test('a picture in a system message is refused by name', () => {
  refuses({ messages: [USER, { role: 'system', content: [IMAGE] }] }, 'messages[1].content');
});

feature('several turns', 'go one by one, without thoughts, and text alone goes as text', () => {
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

feature('images', 'go inside a URL; a server that sees none is not asked', () => {
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

feature('images by URL', 'go as a URL', () => {
  assert.equal(sent([{ role: 'user', content: [{ type: 'image_url', url: 'https://a.example/b' }] }]), [
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/b' } }] },
  ]);
});

feature('tools', 'are told with their schema, which one without has empty', () => {
  assert.equal(body({ tools: [WEATHER, { name: 'get_time' }] })['tools'], [
    { type: 'function', function: WEATHER },
    { type: 'function', function: { name: 'get_time', parameters: {} } },
  ]);
});

feature('tools', 'are called with their arguments, put together by index', () => {
  const events = answer(wire, THOUGHT_AND_CALLS);
  assert.equal(joined(events).calls, [
    { id: 'call_a', name: 'get_weather', arguments: '{"city":"Köln"}' },
    { id: 'call_b', name: 'get_time', arguments: '{}' },
  ]);
  assert.is(finishOf(events), 'tool_calls');
});

feature('tool choice', 'has a word for each', () => {
  const choose = (choice: unknown): unknown => body({ tools: [WEATHER], tool_choice: choice })['tool_choice'];
  assert.is(body({ tools: [WEATHER] })['tool_choice'], undefined);
  for (const choice of ['auto', 'none', 'required']) assert.is(choose(choice), choice);
  assert.equal(choose({ name: 'get_weather' }), { type: 'function', function: { name: 'get_weather' } });
});

test('a tool choice without tools: none is granted, another is refused by name', () => {
  assert.equal(body({ tool_choice: 'none' }), body({}));
  for (const choice of ['required', { name: 'get_weather' }]) refuses({ tool_choice: choice }, 'tool_choice');
});

feature('at most one tool call', 'goes as it is, beside tools', () => {
  assert.is(body({ tools: [WEATHER], parallel_tool_calls: false })['parallel_tool_calls'], false);
  assert.is(body({ tools: [WEATHER] })['parallel_tool_calls'], undefined);
  assert.equal(body({ parallel_tool_calls: false }), body({}));
});

feature('tool results', 'go by the id of the call', () => {
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

test('a result without the id of its call is refused by name', () => {
  refuses({ messages: [USER, CALLED, { role: 'tool', content: '1' }] }, 'messages[2].tool_call_id');
});

refused('images in tool results', () => {
  refuses({ messages: [USER, CALLED, { ...RESULT, content: [IMAGE] }] }, 'messages[2].content');
});

test('a server that wants thoughts back gets them beside the calls', () => {
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

feature('reasoning effort', 'goes as it is', () => {
  for (const effort of ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']) {
    assert.is(body({ reasoning_effort: effort })['reasoning_effort'], effort);
  }
});

feature('reasoning told', 'apart from the text', () => {
  const { text, reasoning } = joined(answer(wire, THOUGHT_AND_CALLS));
  assert.is(reasoning, 'The user wants the weather.');
  assert.is(text, "Let's look.");
});

feature('JSON of any shape', 'is a type of answer', () => {
  assert.equal(body({ format: { type: 'json_object' } })['response_format'], { type: 'json_object' });
});

feature('JSON schema', 'goes as it is, and is more than advice unless the request says so', () => {
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

test('a server that takes grammars gets one', () => {
  const format = { type: 'grammar', grammar: 'root ::= "a"' };
  assert.is(body({ format }, { grammar: true })['grammar'], 'root ::= "a"');
});

feature('stop strings', 'go as they are', () => {
  assert.equal(body({ stop: ['\n\n', 'END'] })['stop'], ['\n\n', 'END']);
});
feature('max_tokens', 'goes as it is, or by the name that the server has for it', () => {
  assert.is(body({ max_tokens: 5 })['max_tokens'], 5);
  const renamed = body({ max_tokens: 5 }, { max_tokens_field: 'max_completion_tokens' });
  assert.is(renamed['max_completion_tokens'], 5);
  assert.is(renamed['max_tokens'], undefined);
});
feature('temperature', 'goes as it is', () => {
  assert.is(body({ sampling: { temperature: 0 } })['temperature'], 0);
});
feature('top_p', 'goes as it is, 1 too: servers have a default of their own', () => {
  assert.is(body({ sampling: { top_p: 1 } })['top_p'], 1);
});
feature('top_k', 'goes by the name that local servers have for it', () => {
  assert.is(body({ sampling: { top_k: 40 } })['top_k'], 40);
});
feature('min_p', 'goes by the name that local servers have for it', () => {
  assert.is(body({ sampling: { min_p: 0.05 } })['min_p'], 0.05);
});
feature('repeat_penalty', 'goes by the name that the server has for it', () => {
  assert.is(body({ sampling: { repeat_penalty: 1.1 } })['repeat_penalty'], 1.1);
  const renamed = body({ sampling: { repeat_penalty: 1.1 } }, { repeat_penalty_field: 'repetition_penalty' });
  assert.is(renamed['repetition_penalty'], 1.1);
  assert.is(renamed['repeat_penalty'], undefined);
});
feature('frequency_penalty', 'goes as it is', () => {
  assert.is(body({ sampling: { frequency_penalty: 0.5 } })['frequency_penalty'], 0.5);
});
feature('presence_penalty', 'goes as it is', () => {
  assert.is(body({ sampling: { presence_penalty: -0.5 } })['presence_penalty'], -0.5);
});
feature('seed', 'goes as it is', () => {
  assert.is(body({ sampling: { seed: 0 } })['seed'], 0);
});
feature('logit_bias', 'goes by token', () => {
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
feature('logprobs', 'are asked for, with or without those of other tokens', () => {
  const { logprobs, top_logprobs: top } = body({ logprobs: 3 });
  assert.equal([logprobs, top], [true, 3]);
  const own = body({ logprobs: 0 });
  assert.equal([own['logprobs'], own['top_logprobs']], [true, undefined]);
});
feature('logprobs', 'come with the text they belong to', () => {
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

test('what a server does not know is refused by name, in our words or in those of the API', () => {
  const quirks = { unsupported: ['tools', 'top_k', 'min_p', 'repeat_penalty', 'stop', 'response_format'] };
  refuses({ tools: [WEATHER] }, 'tools', quirks);
  refuses({ sampling: { top_k: 3 } }, 'top_k', quirks);
  refuses({ stop: ['END'] }, 'stop', quirks);
  refuses({ format: { type: 'json_object' } }, 'response_format', quirks);
  assert.equal(body({ tools: [], stop: [] }, quirks), body({}));
});

test('what does nothing is not sent to a server that does not know it', () => {
  const quirks = { unsupported: ['top_k', 'min_p', 'repeat_penalty'] };
  assert.equal(body({ sampling: { top_k: 0, min_p: 0, repeat_penalty: 1 } }, quirks), body({}));
});

feature('usage', 'is asked for, and comes in a chunk of its own', () => {
  assert.equal(usageOf(answer(wire, HELLO)), { input_tokens: 5, output_tokens: 2, cached_tokens: 0 });
});

test('a server that refuses to be asked for usage is not', () => {
  assert.is(body({}, { stream_usage: false })['stream_options'], undefined);
});

feature('cached tokens', 'are input too', () => {
  assert.equal(usageOf(answer(wire, CACHED)), { input_tokens: 2132, output_tokens: 12, cached_tokens: 2000 });
});

feature('finish reasons', 'are known by their meaning, in the words of all who speak the API', () => {
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

feature('errors inside the stream', 'are errors, in the words of the provider', () => {
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

feature('errors inside the stream', 'may be reasons to give up', () => {
  for (const reason of ['error', 'abort', 'network_error', 'insufficient_system_resource']) {
    const error = thrown(() => answer(wire, [piece({ content: 'secret' }, reason)]));
    assert.is(error.code, 'PROVIDER_FAILED');
    assert.not.match(JSON.stringify(error.toRecord()), 'secret');
  }
});

feature('answers that break off', 'are failures, however far they came', () => {
  for (const whole of [HELLO.slice(0, -1), THOUGHT_AND_CALLS]) failsCutAnywhere(wire, whole);
});

test('figures that do not come are no failure', () => {
  const events = answer(wire, HELLO.slice(0, -1));
  assert.is(finishOf(events), 'stop');
  assert.is(usageOf(events), undefined);
});

test('what is not the API is a failure that repeats none of it', () => {
  refusesWhatIsNotTheApi(wire, ['{"choices":"secret"}']);
  const nameless = callPiece({ index: 0, id: 'a', function: { arguments: '{}' } });
  assert.is(thrown(() => answer(wire, [nameless, piece({}, 'tool_calls')])).code, 'PROVIDER_FAILED');
});

const STARTED = { type: 'started', model: MODEL } as const;
const text = (words: string): WireEvent => ({ type: 'text', text: words });
const thought = (words: string): WireEvent => ({ type: 'reasoning', text: words });
const finish = (reason: FinishReason): WireEvent => ({ type: 'finish', reason });
const named = (index: number, id: string, name: string, args: string): WireEvent => ({
  type: 'tool_call',
  index,
  id,
  name,
  arguments: args,
});
const more = (index: number, args: string): WireEvent => ({ type: 'tool_call', index, arguments: args });
const counted = (input_tokens: number, output_tokens: number, cached_tokens = 0): WireEvent => ({
  type: 'usage',
  usage: { input_tokens, output_tokens, cached_tokens },
});
const usage = { prompt_tokens: 5, completion_tokens: 2 };

/** How servers differ from OpenAI's own. */
const STREAMS: Readonly<Record<string, readonly [readonly Recorded[], readonly WireEvent[]]>> = {
  'an empty first chunk, as Azure sends it': [
    [[undefined, { choices: [], model: '', prompt_filter_results: [] }], piece({ content: 'Hi' }), piece({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'usage in the choice, as Moonshot sends it': [
    [
      piece({ content: 'Hi' }),
      piece({}, null, {
        choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: { ...usage, cached_tokens: 3 } }],
      }),
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2, 3)],
  ],
  'usage in x_groq': [
    [piece({ content: 'Hi' }), piece({}, 'stop', { x_groq: { id: 'req', usage } })],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
  'usage as DeepSeek counts it': [
    [piece({ content: 'Hi' }, 'length', { usage: { ...usage, prompt_cache_hit_tokens: 1 } })],
    [STARTED, text('Hi'), finish('length'), counted(5, 2, 1)],
  ],
  'an empty role, as MiniMax sends it': [
    [piece({ role: '', content: 'Hi' }, null, { base_resp: { status_code: 0, status_msg: '' } }), piece({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'thoughts in reasoning_content': [
    [piece({ reasoning_content: 'hm', content: null }), piece({ content: '<think>x' }), piece({}, 'stop')],
    [STARTED, thought('hm'), text('<think>x'), finish('stop')],
  ],
  'thoughts in both fields, as vLLM sends them': [
    [piece({ reasoning_content: 'hm', reasoning: 'hm' }), piece({ content: 'Hi' }, 'stop')],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'thoughts in parts, as Mistral sends them': [
    [
      piece({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
      piece({ content: [{ type: 'text', text: 'Hi' }] }),
      piece({}, 'stop'),
    ],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'thoughts in tags': [
    [
      piece({ content: '\n<thi' }),
      piece({ content: 'nk>h' }),
      piece({ content: 'm</think' }),
      piece({ content: '>\n\nHi' }),
      piece({}, 'stop'),
    ],
    [STARTED, thought('h'), thought('m'), text('Hi'), finish('stop')],
  ],
  'what only looks like a tag': [
    [piece({ content: '<' }), piece({ content: 'b>' }), piece({}, 'stop')],
    [STARTED, text('<b>'), finish('stop')],
  ],
  'a beginning of a tag at the end': [
    [piece({ content: '<thi' }), piece({}, 'length')],
    [STARTED, finish('length'), text('<thi')],
  ],
  'calls without an index': [
    [
      callPiece({ id: 'a', function: { name: 'weather', arguments: '{' } }),
      callPiece({ function: { arguments: '}' } }),
      callPiece({ id: 'b', function: { name: 'time', arguments: '{}' } }),
      piece({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{'), more(0, '}'), named(1, 'b', 'time', '{}'), finish('tool_calls')],
  ],
  'calls that all have the index 0, as Gemini sends them': [
    [
      piece({
        tool_calls: [
          { index: 0, id: 'a', function: { name: 'weather', arguments: '{}' } },
          { index: 0, id: 'b', function: { name: 'weather', arguments: '{}' } },
        ],
      }),
      piece({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), named(1, 'b', 'weather', '{}'), finish('tool_calls')],
  ],
  'a call without an id, its arguments an object, its name told again': [
    [
      callPiece({ index: 0, function: { name: 'weather', arguments: { x: 1 } } }),
      callPiece({ index: 0, function: { name: 'weather', arguments: '' } }),
      piece({}, 'function_call'),
    ],
    [STARTED, named(0, 'call_chatcmpl-1_0', 'weather', '{"x":1}'), finish('tool_calls')],
  ],
  'arguments before the name': [
    [
      callPiece({ index: 0, id: 'a', function: { arguments: '{' } }),
      callPiece({ index: 0, function: { name: 'weather', arguments: '}' } }),
      piece({}, 'tool_calls'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), finish('tool_calls')],
  ],
  'a refusal': [
    [piece({ refusal: 'No.' }), piece({}, 'stop')],
    [STARTED, text('No.'), finish('content_filter')],
  ],
  'a whole message instead of pieces': [
    [
      piece({}, null, {
        choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
        usage,
      }),
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
};
for (const [name, [events, told]] of Object.entries(STREAMS)) {
  test(`answers differ: ${name}`, () => {
    assert.equal(answer(wire, events), told);
  });
}

test('pieces cut anywhere give the same thought and text', () => {
  const whole = '<think>a < b </thin k></think>\n\nThe <think> answer';
  for (let cut = 0; cut <= whole.length; cut++) {
    for (const second of [cut + 1, cut + 5, cut + 9]) {
      const pieces = [whole.slice(0, cut), whole.slice(cut, second), whole.slice(second)];
      const told = joined(answer(wire, [...pieces.map((content) => piece({ content })), piece({}, 'stop')]));
      assert.equal(told, { text: 'The <think> answer', reasoning: 'a < b </thin k>', calls: [] });
    }
  }
});

test('an error without words is an error still', () => {
  assert.equal(wire.error({ error: {} }), { message: '', code: null });
  for (const none of [null, undefined, 'x', 7, [], {}, { choices: [] }, { base_resp: { status_code: 0 } }]) {
    assert.is(wire.error(none), null);
  }
});

feature('list of models', 'is read page by page, whether or not it is wrapped', () => {
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

test('a server has its own path for the list, or none', () => {
  const path = (models_path: string | null): string | undefined =>
    wire.listModels({ key: null, quirks: { models_path } }, 'b')?.path;
  assert.is(path('/models?type=chat'), '/models?type=chat&after=b');
  assert.is(path(null), undefined);
  assert.is(thrown(() => wire.readModels({ models: [] })).code, 'PROVIDER_FAILED');
});

test.run();
