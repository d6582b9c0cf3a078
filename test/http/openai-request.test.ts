import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { LIMITS } from '../../src/protocol/generate.ts';
import { parseChatCompletion } from '../../src/protocol/openai/chat-request.ts';
import { renamed } from '../../src/protocol/validate.ts';

const SECRET = 'the-secret-prompt';
const MESSAGES = [{ role: 'user', content: 'hi' }];

function refusal(body: unknown): SvcError {
  try {
    parseChatCompletion(body);
  } catch (error) {
    return error as SvcError;
  }
  throw new Error(`it was not refused: ${JSON.stringify(body).slice(0, 200)}`);
}

test('a minimal request', () => {
  assert.equal(parseChatCompletion({ messages: MESSAGES }), {
    request: { messages: MESSAGES, sampling: {}, stop: [] },
    isWarmUp: false,
    stream: false,
    includeUsage: false,
    names: [],
    ignoredTools: [],
    choices: 1,
  });
});

const EVERY_PARAMETER = {
  model: 'tiny',
  messages: MESSAGES,
  max_tokens: 5,
  temperature: 0,
  top_p: 0.5,
  top_k: 3,
  min_p: 0.1,
  repeat_penalty: 1.1,
  repeat_last_n: 32,
  frequency_penalty: -2,
  presence_penalty: 2,
  dynatemp_range: 0.5,
  dynatemp_exponent: 2,
  typical_p: 0.9,
  xtc_probability: 0.5,
  xtc_threshold: 0.2,
  mirostat: 2,
  mirostat_tau: 4,
  mirostat_eta: 0.2,
  dry_multiplier: 0.8,
  dry_base: 2,
  dry_allowed_length: 3,
  dry_penalty_last_n: 256,
  dry_sequence_breakers: ['\n'],
  seed: 42,
  stop: ['a', 'b'],
  priority: 'batch',
  logit_bias: { '15': -100, '0': 1.5 },
  n: 3,
  stream: true,
  stream_options: { include_usage: true, include_obfuscation: false },
};

test('every parameter reaches the internal request', () => {
  const {
    messages: _,
    model: __,
    max_tokens: ___,
    stop: ____,
    priority: _______,
    n: ________,
    stream: _____,
    stream_options: ______,
    ...sampling
  } = EVERY_PARAMETER;
  assert.equal(parseChatCompletion(EVERY_PARAMETER), {
    request: {
      model: 'tiny',
      messages: MESSAGES,
      max_tokens: 5,
      sampling: {
        ...sampling,
        logit_bias: [
          [0, 1.5],
          [15, -100],
        ],
      },
      stop: ['a', 'b'],
      priority: 'batch',
    },
    isWarmUp: false,
    stream: true,
    includeUsage: true,
    names: [],
    ignoredTools: [],
    choices: 3,
  });
});

test('null, -1, "default" and an empty model mean unset', () => {
  const nothing = {
    messages: MESSAGES,
    max_tokens: -1,
    max_completion_tokens: null,
    temperature: null,
    seed: -1,
    stop: null,
    stream: null,
    stream_options: null,
    logit_bias: null,
    n: null,
    tools: null,
    response_format: null,
    logprobs: null,
  };
  for (const model of ['default', ''])
    assert.equal(parseChatCompletion({ ...nothing, model }), parseChatCompletion({ messages: MESSAGES }));
});

test('max_completion_tokens is the newer name and wins', () => {
  assert.is(parseChatCompletion({ messages: MESSAGES, max_completion_tokens: 7 }).request.max_tokens, 7);
  assert.is(parseChatCompletion({ messages: MESSAGES, max_completion_tokens: 7, max_tokens: 9 }).request.max_tokens, 7);
});

test('stop may be one string', () => {
  const stopsOf = (stop: unknown) => parseChatCompletion({ messages: MESSAGES, stop }).request.stop;
  assert.equal(['end', '', [''], ['a', '', 'b'], []].map(stopsOf), [['end'], [], [], ['a', 'b'], []]);
});

test('store controls whether the request may be stored on disk', () => {
  assert.is(parseChatCompletion({ messages: MESSAGES, store: false }).request.store, false);
  assert.is(parseChatCompletion({ messages: MESSAGES }).request.store, undefined);
});

test('unknown fields are ignored', () => {
  const body = {
    messages: MESSAGES,
    user: 'x',
    metadata: { a: 'b' },
    service_tier: 'auto',
    whatever: [1],
  };
  assert.equal(parseChatCompletion(body), parseChatCompletion({ messages: MESSAGES }));
});

test('messages: every role, text parts joined by line breaks', () => {
  const { request } = parseChatCompletion({
    messages: [
      { role: 'developer', content: 'be brief' },
      { role: 'system', content: 'be kind', name: 'x' },
      {
        role: 'user',
        content: [
          { type: 'text', text: '' },
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'tool', content: '42', tool_call_id: 'c' },
      { role: 'user', content: '' },
    ],
  });
  assert.equal(request.messages, [
    { role: 'system', content: 'be brief' },
    { role: 'system', content: 'be kind' },
    { role: 'user', content: 'a\nb' },
    { role: 'assistant', content: '' },
    { role: 'tool', content: '42', tool_call_id: 'c' },
    { role: 'user', content: '' },
  ]);
});

test('unsupported parameters are refused by name', () => {
  const wishes = {
    functions: [{ name: 'f' }],
    function_call: { name: 'f' },
    modalities: ['text', 'audio'],
    audio: { voice: 'x' },
    web_search_options: {},
  };
  for (const [param, value] of Object.entries(wishes)) {
    const error = refusal({ messages: MESSAGES, [param]: value });
    assert.is(error.code, 'INVALID_REQUEST', param);
    assert.is(error.param, param);
    assert.match(error.message, new RegExp(`^${param} `));
  }
  const harmless = {
    n: 1,
    tools: [],
    tool_choice: 'auto',
    response_format: { type: 'text' },
    logprobs: false,
    modalities: ['text'],
  };
  assert.equal(parseChatCompletion({ messages: MESSAGES, ...harmless }), parseChatCompletion({ messages: MESSAGES }));
});

test('formats are accepted in the syntax of OpenAI and of llama-server', () => {
  const schema = { type: 'object', properties: { a: {} } };
  const formatOf = (fields: object) => {
    const { request, names } = parseChatCompletion({ messages: MESSAGES, ...fields });
    return [request.format, names[0]?.theirs];
  };
  const json_schema = { name: 'thing', strict: true, schema, description: 'a thing' };
  assert.equal(formatOf({ response_format: { type: 'json_schema', json_schema } }), [
    { type: 'json_schema', schema, name: 'thing', strict: true },
    'response_format.json_schema.schema',
  ]);
  assert.equal(formatOf({ response_format: { type: 'json_schema', json_schema: { schema, strict: null } } }), [
    { type: 'json_schema', schema },
    'response_format.json_schema.schema',
  ]);
  assert.equal(formatOf({ response_format: { type: 'json_object' } }), [{ type: 'json_object' }, 'response_format']);
  assert.equal(formatOf({ response_format: { type: 'json_object', schema } }), [
    { type: 'json_schema', schema },
    'response_format.schema',
  ]);
  assert.equal(formatOf({ json_schema: schema }), [{ type: 'json_schema', schema }, 'json_schema']);
  const grammar = 'root ::= "x"';
  assert.equal(formatOf({ grammar }), [{ type: 'grammar', grammar }, 'grammar']);
  assert.equal(formatOf({ grammar: '', response_format: { type: 'text' } }), [undefined, undefined]);
});

test('an error about a format uses the field name of the caller', () => {
  const error = new SvcError('INVALID_REQUEST', 'format.schema.type must be string', { param: 'format.schema.type' });
  const named = renamed(error, 'format.schema', 'json_schema') as SvcError;
  assert.equal([named.param, named.message], ['json_schema.type', 'json_schema.type must be string']);
  for (const other of [new SvcError('BUSY', 'busy'), new SvcError('INVALID_REQUEST', 'x', { param: 'format.schemas' })])
    assert.is(renamed(other, 'format.schema', 'json_schema'), other);
});

test('probabilities are requested by two fields', () => {
  const logprobsOf = (fields: object) => parseChatCompletion({ messages: MESSAGES, ...fields }).request.logprobs;
  assert.is(logprobsOf({ logprobs: true }), 0);
  assert.is(logprobsOf({ logprobs: true, top_logprobs: 20 }), 20);
  assert.is(logprobsOf({ logprobs: false, top_logprobs: 0 }), undefined);
});

const wrong: readonly [param: string, fields: object][] = [
  ['response_format.type', { response_format: { type: SECRET } }],
  ['response_format', { response_format: SECRET }],
  ['response_format.json_schema', { response_format: { type: 'json_schema' } }],
  ['response_format.json_schema.schema', { response_format: { type: 'json_schema', json_schema: {} } }],
  ['response_format.json_schema.schema', { response_format: { type: 'json_schema', json_schema: { schema: SECRET } } }],
  [
    'response_format.json_schema.strict',
    { response_format: { type: 'json_schema', json_schema: { schema: {}, strict: SECRET } } },
  ],
  ['json_schema', { json_schema: SECRET }],
  ['grammar', { grammar: 5 }],
  ['grammar', { grammar: 'x'.repeat(LIMITS.grammarBytes + 1) }],
  ['grammar', { grammar: 'root ::= "x"', json_schema: {} }],
  ['json_schema', { json_schema: {}, response_format: { type: 'json_object' } }],
  ['logprobs', { logprobs: SECRET }],
  ['top_logprobs', { logprobs: true, top_logprobs: 21 }],
  ['top_logprobs', { logprobs: true, top_logprobs: 1.5 }],
  ['top_logprobs', { top_logprobs: 3 }],
  ['messages', { messages: undefined }],
  ['messages', { messages: [] }],
  ['messages', { messages: SECRET }],
  ['messages', { messages: Array.from({ length: LIMITS.messages + 1 }, () => MESSAGES[0]) }],
  ['messages[0]', { messages: [SECRET] }],
  ['messages[0]', { messages: [null] }],
  ['messages[0].role', { messages: [{ content: SECRET }] }],
  ['messages[0].role', { messages: [{ role: SECRET, content: 'x' }] }],
  ['messages[1].content', { messages: [MESSAGES[0], { role: 'user' }] }],
  ['messages[0].content', { messages: [{ role: 'user', content: null }] }],
  ['messages[0].content', { messages: [{ role: 'user', content: 5 }] }],
  ['messages[0].content', { messages: [{ role: 'user', content: { text: SECRET } }] }],
  ['messages[0].content[0].type', { messages: [{ role: 'user', content: [SECRET] }] }],
  ['messages[0].content[0].type', { messages: [{ role: 'user', content: [null] }] }],
  [
    'messages[0].content[1].image_url.url',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'image_url', image_url: { url: SECRET } },
          ],
        },
      ],
    },
  ],
  ['messages[0].content[0].text', { messages: [{ role: 'user', content: [{ type: 'text', text: [SECRET] }] }] }],
  [
    'messages[0].content[0].image_url.url',
    {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${SECRET}!` } }] },
      ],
    },
  ],
  [
    'messages[0].tool_calls[0].type',
    { messages: [{ role: 'assistant', content: null, tool_calls: [{ id: SECRET }] }] },
  ],
  ['tools[0].type', { tools: [{ function: { name: SECRET } }] }],
  ['tools[0].function.name', { tools: [{ type: 'function', function: {} }] }],
  ['tool_choice', { tool_choice: SECRET }],
  ['tool_choice', { tool_choice: 'required' }],
  ['tool_choice', { tools: [], tool_choice: { type: 'function', function: { name: SECRET } } }],
  ['parallel_tool_calls', { parallel_tool_calls: SECRET }],
  ['reasoning_effort', { reasoning_effort: SECRET }],
  ['model', { model: 5 }],
  ['model', { model: 'x'.repeat(513) }],
  ['stream', { stream: 'yes' }],
  ['stream_options', { stream_options: SECRET }],
  ['stream_options.include_usage', { stream_options: { include_usage: 1 } }],
  ['stop', { stop: 5 }],
  ['stop', { stop: Array.from({ length: 65 }, () => 'x') }],
  ['stop[1]', { stop: ['x', 5] }],
  ['stop[0]', { stop: [SECRET.repeat(100)] }],
  ['logit_bias', { logit_bias: [['word', 2]] }],
  ['logit_bias', { logit_bias: [1, 2] }],
  ['logit_bias', { logit_bias: Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [String(id), 1])) }],
  ['dry_sequence_breakers', { dry_sequence_breakers: Array.from({ length: 17 }, () => 'x') }],
  ['dry_sequence_breakers[0]', { dry_sequence_breakers: [''] }],
  ['dry_sequence_breakers[1]', { dry_sequence_breakers: ['x', 'x'.repeat(41)] }],
  ['logit_bias.one', { logit_bias: { one: 1 } }],
  ['logit_bias.-1', { logit_bias: { '-1': 1 } }],
  ['logit_bias.5', { logit_bias: { '5': 101 } }],
  ['logit_bias.5', { logit_bias: { '5': 'x' } }],
];
const ranges: Record<string, readonly unknown[]> = {
  max_tokens: [0, -2, 1.5, 1e9, '5', true],
  max_completion_tokens: [0, 1e9],
  n: [0, -1, 17, 1.5, '2', true],
  temperature: [-0.1, 101, '1', [1]],
  top_p: [-0.1, 1.1],
  top_k: [-2, 1.5, 1e7],
  min_p: [-0.1, 1.1],
  repeat_penalty: [0, 101],
  repeat_last_n: [-1, 65_537],
  frequency_penalty: [-2.1, 2.1],
  presence_penalty: [-2.1, 2.1],
  dynatemp_range: [-1, 101],
  dynatemp_exponent: [-1, '1'],
  typical_p: [-0.1, 1.1],
  xtc_probability: [-0.1, 1.1],
  xtc_threshold: [-0.1, 1.1],
  mirostat: [-1, 3, 1.5],
  mirostat_tau: [-1, 101],
  mirostat_eta: [-0.1, 1.1],
  dry_multiplier: [-1, 101],
  dry_base: [0.9, 101],
  dry_allowed_length: [-1, 1.5],
  dry_penalty_last_n: [-1, 65_537],
  seed: [1.5, 2 ** 53, '42'],
};

test('an invalid value is refused with its place and never quoted', () => {
  const all = [
    ...wrong,
    ...Object.entries(ranges).flatMap(([name, values]) => values.map((value) => [name, { [name]: value }] as const)),
  ];
  for (const [param, fields] of all) {
    const error = refusal({ messages: MESSAGES, ...fields });
    const shown = JSON.stringify(fields).slice(0, 100);
    assert.is(error.code, 'INVALID_REQUEST', shown);
    assert.is(error.param, param, shown);
    assert.ok(error.message.startsWith(`${param} `), error.message);
    assert.not.ok(error.message.includes(SECRET), error.message);
  }
  for (const body of [null, 5, 'x', [], true]) assert.is(refusal(body).param, undefined);
});

test('names such as __proto__ are treated as ordinary names', () => {
  const body = JSON.parse(
    '{"messages":[{"role":"user","content":"hi","__proto__":{"x":1}}],"__proto__":{"stream":true},"constructor":1}',
  ) as unknown;
  assert.equal(parseChatCompletion(body), parseChatCompletion({ messages: MESSAGES }));
});

test.run();
