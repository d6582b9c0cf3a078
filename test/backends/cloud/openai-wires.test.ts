/** Chat Completions and Responses, both directions, with shapes as servers send them. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { chatCompletions } from '../../../src/backends/cloud/chat-completions.ts';
import type { Quirks } from '../../../src/backends/cloud/provider.ts';
import { responses } from '../../../src/backends/cloud/responses.ts';
import type { Wire, WireEvent } from '../../../src/backends/cloud/wire.ts';
import type { ErrorCode } from '../../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../../src/protocol/generate.ts';
import { rejection } from '../../support/errors.ts';
import { ask, chunk } from './cloud-support.ts';

const test = suite('wires of OpenAI');

function body(wire: Wire, request: Partial<GenerateRequest>, quirks: Quirks = {}): any {
  return wire.request(ask('Hi', request), { model: 'm', key: 'k', quirks }).body;
}

/** What the body has besides the fields of the plainest request. */
function added(wire: Wire, request: Partial<GenerateRequest>, quirks?: Quirks): any {
  const plain = body(wire, {});
  return Object.fromEntries(
    Object.entries(body(wire, request, quirks)).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(plain[name]),
    ),
  );
}

function read(wire: Wire, events: readonly unknown[]): WireEvent[] {
  const reader = wire.reader({});
  const told = events.flatMap((event) =>
    reader.read({ name: '', data: typeof event === 'string' ? event : JSON.stringify(event) }),
  );
  return [...told, ...reader.end()];
}

const delta = (piece: object, finish: string | null = null, more: object = {}): object => chunk(piece, finish, more);
const STARTED = { type: 'started', model: 'small-2026-07' } as const;
const text = (piece: string): WireEvent => ({ type: 'text', text: piece });
const thought = (piece: string): WireEvent => ({ type: 'reasoning', text: piece });
const finish = (reason: any): WireEvent => ({ type: 'finish', reason });

const weather = { name: 'weather', description: 'of a city', parameters: { type: 'object', properties: {} } };
const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false };
const png = { type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' } as const;
const call = { id: 'call_1', name: 'weather', arguments: '{"city": "Bern"}' };
const talk: GenerateRequest['messages'] = [
  { role: 'system', content: 'Be brief.' },
  {
    role: 'user',
    content: [{ type: 'text', text: 'Where?' }, png, { type: 'image_url', url: 'https://x.example/a.png' }],
  },
  { role: 'assistant', content: '', reasoning: 'hm', tool_calls: [call] },
  { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
  { role: 'assistant', content: 'It rains.', reasoning: 'so' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'And' },
      { type: 'text', text: 'now?' },
    ],
  },
];

test('chat completions: the plainest request', () => {
  const request = chatCompletions.request(ask('Hi'), { model: 'm', key: 'k', quirks: {} });
  assert.equal(request, {
    path: '/chat/completions',
    headers: { authorization: 'Bearer k' },
    body: {
      model: 'm',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
    },
  });
});

test('chat completions: the key, where the server wants it', () => {
  const headers = (quirks: Quirks, key: string | null = 'k'): object =>
    chatCompletions.request(ask('Hi'), { model: 'm', key, quirks }).headers;
  assert.equal(headers({ key_header: 'api-key' }), { 'api-key': 'k' });
  assert.equal(headers({ headers: { 'x-title': 'svc' } }), { 'x-title': 'svc', authorization: 'Bearer k' });
  assert.equal(headers({}, null), {});
});

test('chat completions: a talk with images, tools and thoughts', () => {
  assert.equal(body(chatCompletions, { messages: talk }).messages, [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Where?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        { type: 'image_url', image_url: { url: 'https://x.example/a.png' } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city": "Bern"}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    { role: 'assistant', content: 'It rains.' },
    { role: 'user', content: 'And\nnow?' },
  ]);
  const replayed = body(chatCompletions, { messages: talk }, { replay_reasoning: true }).messages;
  assert.is(replayed[2].reasoning_content, 'hm');
  assert.is(replayed[4].reasoning_content, undefined);
});

const CHAT_FIELDS: Readonly<Record<string, readonly [Partial<GenerateRequest>, object, Quirks?]>> = {
  'a bound': [{ max_tokens: 5 }, { max_tokens: 5 }],
  'a bound, called otherwise': [
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    { max_tokens_field: 'max_completion_tokens' },
  ],
  sampling: [
    {
      sampling: {
        temperature: 0,
        top_p: 0.5,
        top_k: 3,
        min_p: 0.1,
        seed: 7,
        repeat_penalty: 1.1,
        logit_bias: [[42, -3]],
      },
    },
    { temperature: 0, top_p: 0.5, top_k: 3, min_p: 0.1, seed: 7, repeat_penalty: 1.1, logit_bias: { 42: -3 } },
  ],
  'a penalty, called otherwise': [
    { sampling: { repeat_penalty: 1.1 } },
    { repetition_penalty: 1.1 },
    { repeat_penalty_field: 'repetition_penalty' },
  ],
  'what does nothing, where it is not known': [
    { sampling: { top_k: 0, min_p: 0, repeat_penalty: 1 } },
    {},
    { unsupported: ['top_k', 'min_p', 'repeat_penalty'] },
  ],
  'stop strings': [{ stop: ['END'] }, { stop: ['END'] }],
  tools: [
    { tools: [weather], tool_choice: { name: 'weather' }, parallel_tool_calls: false },
    {
      tools: [{ type: 'function', function: weather }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      parallel_tool_calls: false,
    },
  ],
  JSON: [{ format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }],
  'a schema': [
    { format: { type: 'json_schema', schema, name: 'a' } },
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema, strict: true } } },
  ],
  'a grammar, for a server that takes it': [
    { format: { type: 'grammar', grammar: 'root ::= "a"' } },
    { grammar: 'root ::= "a"' },
    { grammar: true },
  ],
  effort: [{ reasoning_effort: 'low' }, { reasoning_effort: 'low' }],
  logprobs: [{ logprobs: 3 }, { logprobs: true, top_logprobs: 3 }],
  'its own probability only': [{ logprobs: 0 }, { logprobs: true }],
  'no usage asked for': [{}, {}, { stream_usage: false }],
};
for (const [name, [request, fields, quirks]] of Object.entries(CHAT_FIELDS)) {
  test(`chat completions asks for ${name}`, () => assert.equal(added(chatCompletions, request, quirks), fields));
}

const RESPONSES_FIELDS: Readonly<Record<string, readonly [Partial<GenerateRequest>, object]>> = {
  'a bound': [{ max_tokens: 5 }, { max_output_tokens: 5 }],
  sampling: [{ sampling: { temperature: 0, top_p: 0.5, frequency_penalty: 0 } }, { temperature: 0, top_p: 0.5 }],
  tools: [
    { tools: [weather], tool_choice: { name: 'weather' } },
    { tools: [{ type: 'function', ...weather, strict: false }], tool_choice: { type: 'function', name: 'weather' } },
  ],
  'a schema': [
    { format: { type: 'json_schema', schema, name: 'a' } },
    { text: { format: { type: 'json_schema', name: 'a', schema, strict: true } } },
  ],
  effort: [{ reasoning_effort: 'low' }, { reasoning: { effort: 'low', summary: 'auto' } }],
  logprobs: [{ logprobs: 2 }, { top_logprobs: 2, include: ['message.output_text.logprobs'] }],
};
for (const [name, [request, fields]] of Object.entries(RESPONSES_FIELDS)) {
  test(`responses asks for ${name}`, () => assert.equal(added(responses, request), fields));
}

test('responses: a talk with images and tools', () => {
  const { input, store } = body(responses, { messages: talk });
  assert.is(store, false);
  assert.equal(input, [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'Where?' },
        { type: 'input_image', detail: 'auto', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
        { type: 'input_image', detail: 'auto', image_url: 'https://x.example/a.png' },
      ],
    },
    { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{"city": "Bern"}' },
    { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
    { role: 'assistant', content: 'It rains.' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'And' },
        { type: 'input_text', text: 'now?' },
      ],
    },
  ]);
});

const REFUSED: readonly (readonly [Wire, Partial<GenerateRequest>, param: string, Quirks?])[] = [
  [chatCompletions, { format: { type: 'grammar', grammar: 'x' } }, 'format'],
  [chatCompletions, { sampling: { top_k: 3 } }, 'top_k', { unsupported: ['top_k'] }],
  [chatCompletions, { stop: ['x'] }, 'stop', { unsupported: ['stop'] }],
  [chatCompletions, { format: { type: 'json_object' } }, 'response_format', { unsupported: ['response_format'] }],
  [
    chatCompletions,
    { messages: [{ role: 'user', content: [png] }] },
    'messages[0].content',
    { unsupported: ['image_url'] },
  ],
  [chatCompletions, { messages: [{ role: 'system', content: [png] }] }, 'messages[0].content'],
  [chatCompletions, { messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
  [chatCompletions, { tool_choice: 'required' }, 'tool_choice'],
  [responses, { stop: ['x'] }, 'stop'],
  [responses, { sampling: { seed: 1 } }, 'seed'],
  [responses, { sampling: { logit_bias: [[1, 1]] } }, 'logit_bias'],
  [responses, { format: { type: 'grammar', grammar: 'x' } }, 'format'],
];
for (const [wire, request, param, quirks] of REFUSED) {
  test(`no wish is dropped: ${param} (${wire === responses ? 'responses' : 'chat completions'})`, async () => {
    const error = await rejection(() => body(wire, request, quirks), 'INVALID_REQUEST');
    assert.is(error.param, param);
  });
}

const tool = (call: object): object => delta({ tool_calls: [call] });
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

const CHAT_STREAMS: Readonly<Record<string, readonly [readonly unknown[], readonly WireEvent[]]>> = {
  'text, and usage in a chunk of its own': [
    [
      delta({ role: 'assistant', content: '', refusal: null }),
      delta({ content: 'Hi' }),
      delta({}, 'stop'),
      { ...delta({}), choices: [], usage: { ...usage, prompt_tokens_details: { cached_tokens: 4 } } },
      '[DONE]',
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2, 4)],
  ],
  'an empty first chunk, as Azure sends it': [
    [{ choices: [], model: '', prompt_filter_results: [] }, delta({ content: 'Hi' }), delta({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'usage in the choice, as Moonshot sends it': [
    [
      delta({ content: 'Hi' }),
      {
        model: 'small-2026-07',
        choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage: { ...usage, cached_tokens: 3 } }],
      },
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2, 3)],
  ],
  'usage in x_groq': [
    [delta({ content: 'Hi' }), delta({}, 'stop', { x_groq: { id: 'req', usage } })],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
  'usage as DeepSeek counts it': [
    [delta({ content: 'Hi' }, 'length', { usage: { ...usage, prompt_cache_hit_tokens: 1 } })],
    [STARTED, text('Hi'), finish('length'), counted(5, 2, 1)],
  ],
  'an empty role, as MiniMax sends it': [
    [delta({ role: '', content: 'Hi' }, null, { base_resp: { status_code: 0, status_msg: '' } }), delta({}, 'stop')],
    [STARTED, text('Hi'), finish('stop')],
  ],
  'thoughts in reasoning_content': [
    [delta({ reasoning_content: 'hm', content: null }), delta({ content: '<think>x' }), delta({}, 'stop')],
    [STARTED, thought('hm'), text('<think>x'), finish('stop')],
  ],
  'thoughts in both fields, as vLLM sends them': [
    [delta({ reasoning_content: 'hm', reasoning: 'hm' }), delta({ content: 'Hi' }, 'stop')],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'thoughts in parts, as Mistral sends them': [
    [
      delta({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
      delta({ content: [{ type: 'text', text: 'Hi' }] }),
      delta({}, 'stop'),
    ],
    [STARTED, thought('hm'), text('Hi'), finish('stop')],
  ],
  'thoughts in tags': [
    [
      delta({ content: '\n<thi' }),
      delta({ content: 'nk>h' }),
      delta({ content: 'm</think' }),
      delta({ content: '>\n\nHi' }),
      delta({}, 'stop'),
    ],
    [STARTED, thought('h'), thought('m'), text('Hi'), finish('stop')],
  ],
  'what only looks like a tag': [
    [delta({ content: '<' }), delta({ content: 'b>' }), delta({}, 'stop')],
    [STARTED, text('<b>'), finish('stop')],
  ],
  'a beginning of a tag at the end': [
    [delta({ content: '<thi' }), delta({}, 'length')],
    [STARTED, finish('length'), text('<thi')],
  ],
  'two calls, in pieces': [
    [
      tool({ index: 0, id: 'a', type: 'function', function: { name: 'weather', arguments: '' } }),
      tool({ index: 0, function: { arguments: '{"x"' } }),
      tool({ index: 0, function: { arguments: ':1}' } }),
      tool({ index: 1, id: 'b', function: { name: 'time', arguments: '{}' } }),
      delta({}, 'tool_calls'),
    ],
    [
      STARTED,
      named(0, 'a', 'weather', ''),
      more(0, '{"x"'),
      more(0, ':1}'),
      named(1, 'b', 'time', '{}'),
      finish('tool_calls'),
    ],
  ],
  'calls without an index': [
    [
      tool({ id: 'a', function: { name: 'weather', arguments: '{' } }),
      tool({ function: { arguments: '}' } }),
      tool({ id: 'b', function: { name: 'time', arguments: '{}' } }),
      delta({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{'), more(0, '}'), named(1, 'b', 'time', '{}'), finish('tool_calls')],
  ],
  'calls that all have the index 0, as Gemini sends them': [
    [
      delta({
        tool_calls: [
          { index: 0, id: 'a', function: { name: 'weather', arguments: '{}' } },
          { index: 0, id: 'b', function: { name: 'weather', arguments: '{}' } },
        ],
      }),
      delta({}, 'stop'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), named(1, 'b', 'weather', '{}'), finish('tool_calls')],
  ],
  'a call without an id, its arguments an object, its name told again': [
    [
      tool({ index: 0, function: { name: 'weather', arguments: { x: 1 } } }),
      tool({ index: 0, function: { name: 'weather', arguments: '' } }),
      delta({}, 'function_call'),
    ],
    [STARTED, named(0, 'call_chatcmpl-1_0', 'weather', '{"x":1}'), finish('tool_calls')],
  ],
  'arguments before the name': [
    [
      tool({ index: 0, id: 'a', function: { arguments: '{' } }),
      tool({ index: 0, function: { name: 'weather', arguments: '}' } }),
      delta({}, 'tool_calls'),
    ],
    [STARTED, named(0, 'a', 'weather', '{}'), finish('tool_calls')],
  ],
  'a refusal': [
    [delta({ refusal: 'No.' }), delta({}, 'stop')],
    [STARTED, text('No.'), finish('content_filter')],
  ],
  'other words for the finish': [[delta({ content: 'Hi' }, 'model_length')], [STARTED, text('Hi'), finish('length')]],
  'a whole message instead of pieces': [
    [
      {
        id: 'x',
        model: 'small-2026-07',
        choices: [{ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
        usage,
      },
    ],
    [STARTED, text('Hi'), finish('stop'), counted(5, 2)],
  ],
  logprobs: [
    [
      {
        model: 'small-2026-07',
        choices: [
          {
            delta: { content: 'é' },
            logprobs: {
              content: [
                {
                  token: 'é',
                  bytes: [195, 169],
                  logprob: -0.5,
                  top_logprobs: [{ token: 'e', bytes: null, logprob: -1 }],
                },
              ],
            },
          },
        ],
      },
      delta({}, 'stop'),
    ],
    [
      STARTED,
      {
        type: 'text',
        text: 'é',
        logprobs: [{ token: 'é', bytes: [195, 169], logprob: -0.5, top: [{ token: 'e', bytes: [101], logprob: -1 }] }],
      },
      finish('stop'),
    ],
  ],
};
for (const [name, [events, told]] of Object.entries(CHAT_STREAMS)) {
  test(`chat completions tells ${name}`, () => assert.equal(read(chatCompletions, events), told));
}

const created = { type: 'response.created', response: { id: 'resp_1', model: 'small-2026-07', status: 'in_progress' } };
const completed = (more: object = {}): object => ({
  type: 'response.completed',
  response: {
    id: 'resp_1',
    usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 1 }, output_tokens: 2 },
    ...more,
  },
});

const RESPONSES_STREAMS: Readonly<Record<string, readonly [readonly unknown[], readonly WireEvent[]]>> = {
  text: [
    [
      created,
      { type: 'response.in_progress', response: {} },
      { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'msg', content: [] } },
      { type: 'response.content_part.added', output_index: 0, part: { type: 'output_text', text: '' } },
      { type: 'response.output_text.delta', output_index: 0, delta: 'Hi', logprobs: [] },
      { type: 'response.output_text.done', output_index: 0, text: 'Hi' },
      { type: 'response.output_item.done', output_index: 0, item: { type: 'message', content: [{ text: 'Hi' }] } },
      completed(),
    ],
    [STARTED, text('Hi'), counted(5, 2, 1), finish('stop')],
  ],
  'thoughts, in paragraphs': [
    [
      created,
      { type: 'response.reasoning_summary_text.delta', summary_index: 0, delta: 'One' },
      { type: 'response.reasoning_summary_text.delta', summary_index: 1, delta: 'two' },
      { type: 'response.reasoning_summary_text.delta', summary_index: 1, delta: '.' },
      { type: 'response.output_text.delta', delta: 'Hi' },
      completed(),
    ],
    [STARTED, thought('One'), thought('\n\ntwo'), thought('.'), text('Hi'), counted(5, 2, 1), finish('stop')],
  ],
  'calls, in pieces and at once': [
    [
      created,
      {
        type: 'response.output_item.added',
        output_index: 1,
        item: { type: 'function_call', call_id: 'a', name: 'weather', arguments: '' },
      },
      { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{"x"' },
      { type: 'response.function_call_arguments.delta', output_index: 1, delta: ':1}' },
      {
        type: 'response.output_item.done',
        output_index: 1,
        item: { type: 'function_call', call_id: 'a', name: 'weather', arguments: '{"x":1}' },
      },
      {
        type: 'response.output_item.done',
        output_index: 2,
        item: { type: 'function_call', call_id: 'b', name: 'time', arguments: '{}' },
      },
      completed(),
    ],
    [
      STARTED,
      named(0, 'a', 'weather', ''),
      more(0, '{"x"'),
      more(0, ':1}'),
      named(1, 'b', 'time', ''),
      more(1, '{}'),
      counted(5, 2, 1),
      finish('tool_calls'),
    ],
  ],
  'an answer that was cut': [
    [
      created,
      { type: 'response.output_text.delta', delta: 'Hi' },
      { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' }, usage: null } },
    ],
    [STARTED, text('Hi'), finish('length')],
  ],
  'an answer that was withheld': [
    [created, { type: 'response.refusal.delta', delta: 'No.' }, completed()],
    [STARTED, text('No.'), counted(5, 2, 1), finish('content_filter')],
  ],
};
for (const [name, [events, told]] of Object.entries(RESPONSES_STREAMS)) {
  test(`responses tells ${name}`, () => assert.equal(read(responses, events), told));
}

const FAILED: readonly (readonly [string, Wire, readonly unknown[], ErrorCode])[] = [
  ['no finish', chatCompletions, [delta({ content: 'Hi' })], 'PROVIDER_FAILED'],
  ['nothing', chatCompletions, [], 'PROVIDER_FAILED'],
  ['no API', chatCompletions, ['"text"'], 'PROVIDER_FAILED'],
  ['a chunk of another shape', chatCompletions, [{ choices: 'x' }], 'PROVIDER_FAILED'],
  [
    'a call without a name',
    chatCompletions,
    [tool({ index: 0, id: 'a', function: { arguments: '{}' } }), delta({}, 'tool_calls')],
    'PROVIDER_FAILED',
  ],
  ['an error, OpenRouter', chatCompletions, [delta({}, null, { error: { code: 429, message: 'slow' } })], 'BUSY'],
  [
    'an error, MiniMax',
    chatCompletions,
    [{ base_resp: { status_code: 1008, status_msg: 'balance' } }],
    'PROVIDER_FAILED',
  ],
  ['an error, Groq', chatCompletions, [delta({}, null, { x_groq: { error: 'over capacity' } })], 'PROVIDER_FAILED'],
  ['an error that is a text', chatCompletions, [{ error: 'model requires more memory' }], 'PROVIDER_FAILED'],
  [
    'a failure',
    responses,
    [created, { type: 'response.failed', response: { error: { code: 'rate_limit_exceeded', message: 'slow' } } }],
    'BUSY',
  ],
  [
    'an error',
    responses,
    [{ type: 'error', code: 'context_length_exceeded', message: 'long', param: null }],
    'CONTEXT_OVERFLOW',
  ],
  ['no end', responses, [created, { type: 'response.output_text.delta', delta: 'Hi' }], 'PROVIDER_FAILED'],
];
for (const [name, wire, events, code] of FAILED) {
  test(`no answer: ${name} (${wire === responses ? 'responses' : 'chat completions'})`, async () => {
    await rejection(() => read(wire, events), code);
  });
}

test('pieces cut anywhere give the same thought and text', () => {
  const whole = '<think>a < b </thin k></think>\n\nThe <think> answer';
  for (let cut = 0; cut <= whole.length; cut++) {
    for (const second of [cut + 1, cut + 5, cut + 9]) {
      const pieces = [whole.slice(0, cut), whole.slice(cut, second), whole.slice(second)];
      const told = read(chatCompletions, [...pieces.map((content) => delta({ content })), delta({}, 'stop')]);
      const join = (type: string): string => told.map((event: any) => (event.type === type ? event.text : '')).join('');
      assert.is(join('reasoning'), 'a < b </thin k>');
      assert.is(join('text'), 'The <think> answer');
    }
  }
});

test('an error without words is an error still', () => {
  assert.equal(chatCompletions.error({ error: {} }), { message: '', code: null });
  for (const none of [null, undefined, 'x', 7, [], {}, { choices: [] }, { base_resp: { status_code: 0 } }]) {
    assert.is(chatCompletions.error(none), null);
  }
});

test.run();
