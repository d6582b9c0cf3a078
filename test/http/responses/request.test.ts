/** `POST /v1/responses`: the conversion of requests. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import { toConversation } from '../../../src/protocol/openai/responses/input.ts';
import type { ContentItem, Placed } from '../../../src/protocol/openai/responses/items.ts';
import { inTheirWords, parseResponses } from '../../../src/protocol/openai/responses/request.ts';

const messagesOf = (input: unknown, instructions?: string): object[] => {
  const call = parseResponses({ input, instructions: instructions ?? null });
  return toConversation(call.instructions, call.input as Placed<ContentItem>[]).messages;
};

function refused(work: () => unknown): SvcError {
  try {
    work();
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

const PICTURE = 'data:image/png;base64,aGVsbG8=';
const CALL = { type: 'function_call', id: 'fc_1', call_id: 'a', name: 'look', arguments: '{}' };
const RESULT = { type: 'function_call_output', call_id: 'a', output: 'seen' };

test('a text is a message of the user; instructions come first', () => {
  assert.equal(messagesOf('Hi', 'Be brief.'), [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ]);
});

test('messages with and without a type, with texts, pictures, sounds and what was said before', () => {
  assert.equal(
    messagesOf([
      { role: 'developer', content: 'Be kind.' },
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'a' },
          { type: 'input_image', image_url: PICTURE, detail: 'auto' },
          { type: 'input_audio', input_audio: { data: 'aGVsbG8=', format: 'wav' } },
        ],
      },
      { role: 'assistant', content: [{ type: 'output_text', text: 'b', annotations: [] }] },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
      { role: 'assistant', content: 'plain' },
    ]),
    [
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', media_type: 'image/png', data: 'aGVsbG8=' },
          { type: 'audio', media_type: 'audio/wav', data: 'aGVsbG8=' },
        ],
      },
      { role: 'assistant', content: 'b' },
      { role: 'assistant', content: 'no' },
      { role: 'assistant', content: 'plain' },
    ],
  );
});

test('system messages at the beginning are one, later ones stay where they are', () => {
  assert.equal(
    messagesOf(
      [
        { role: 'developer', content: 'b' },
        { role: 'user', content: 'c' },
        { role: 'system', content: 'd' },
      ],
      'a',
    ),
    [
      { role: 'system', content: 'a\n\nb' },
      { role: 'user', content: 'c' },
      { role: 'system', content: 'd' },
    ],
  );
});

test('reasoning, text and calls of one turn are one message; results are messages of the tool', () => {
  const turn = [
    { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] },
    { role: 'assistant', content: 'Let me see.' },
    CALL,
    { ...CALL, call_id: 'b', namespace: 'mcp' },
  ];
  const calls = [
    { id: 'a', name: 'look', arguments: '{}' },
    { id: 'b', name: 'mcp__look', arguments: '{}' },
  ];
  assert.equal(messagesOf([{ role: 'user', content: 'x' }, ...turn, RESULT, CALL]), [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'Let me see.', reasoning: 'hm', tool_calls: calls },
    { role: 'tool', content: 'seen', tool_call_id: 'a' },
    { role: 'assistant', content: '', tool_calls: [calls[0]] },
  ]);
  const thought = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'so' }] };
  assert.equal(messagesOf([CALL, thought, { ...CALL, call_id: 'c' }]).at(1), {
    role: 'assistant',
    content: '',
    tool_calls: [{ id: 'c', name: 'look', arguments: '{}' }],
    reasoning: 'so',
  });
});

test('what the assistant says between a call and its result joins the message of the call', () => {
  const said = (content: string): object => ({ role: 'assistant', content });
  const thought = (text: string): object => ({ type: 'reasoning', summary: [{ type: 'summary_text', text }] });
  const call = (id: string): object => ({ ...CALL, call_id: id });
  const result = (id: string): object => ({ ...RESULT, call_id: id });
  const calls = (...ids: string[]): object[] => ids.map((id) => ({ id, name: 'look', arguments: '{}' }));
  const tool = (id: string): object => ({ role: 'tool', content: 'seen', tool_call_id: id });
  const assistant = (content: string, ...ids: string[]): object => ({
    role: 'assistant',
    content,
    tool_calls: calls(...ids),
  });
  const cases: readonly (readonly [items: object[], messages: object[]])[] = [
    [
      [call('a'), said('\n\n'), result('a')],
      [assistant('', 'a'), tool('a')],
    ],
    [
      [said('Hm.'), call('a'), said('So.'), said('\n'), result('a'), said('Yes.')],
      [assistant('Hm.\nSo.', 'a'), tool('a'), { role: 'assistant', content: 'Yes.' }],
    ],
    [
      [said('Before.'), said('Hm.'), call('a'), said('So.'), call('b'), result('b'), result('a')],
      [{ role: 'assistant', content: 'Before.' }, assistant('Hm.\nSo.', 'a', 'b'), tool('b'), tool('a')],
    ],
    [
      [thought('one'), call('a'), thought('two'), call('b'), thought('three'), said('So.'), result('a'), result('b')],
      [{ ...assistant('So.', 'a', 'b'), reasoning: 'one\n\ntwo\n\nthree' }, tool('a'), tool('b')],
    ],
    [
      [call('a'), result('a'), said('So.'), { role: 'user', content: 'x' }],
      [assistant('', 'a'), tool('a'), { role: 'assistant', content: 'So.' }, { role: 'user', content: 'x' }],
    ],
    [
      [call('a'), said('So.'), { role: 'user', content: 'x' }],
      [assistant('', 'a'), { role: 'assistant', content: 'So.' }, { role: 'user', content: 'x' }],
    ],
  ];
  for (const [items, messages] of cases) assert.equal(messagesOf(items), messages);
});

test('places stay those of the items that their messages begin with', () => {
  const input = [{ role: 'user', content: 'x' }, CALL, { role: 'assistant', content: 'So.' }, RESULT];
  const { places } = toConversation(null, parseResponses({ input }).input as Placed<ContentItem>[]);
  assert.equal(places, ['input[0]', 'input[1]', 'input[3]']);
});

test('the limit of calls at once counts those on both sides of a text', () => {
  const calls = Array.from({ length: 300 }, (_, index) => ({ ...CALL, call_id: String(index) }));
  const text = { role: 'assistant', content: 'So.' };
  const thought = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] };
  const items = [...calls, thought, text, ...calls, { ...RESULT, call_id: '0' }];
  assert.is(refused(() => messagesOf(items)).param, 'input[301]');
});

test('calls of OpenAI that clients answer are calls of functions; items of what it ran itself are ignored', () => {
  const action = { commands: ['ls'] };
  const operation = { type: 'delete_file', path: 'a' };
  const output = [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }];
  const input = [
    { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } },
    { role: 'user', content: 'x' },
    { type: 'custom_tool_call', id: 'ctc_1', call_id: 'a', namespace: 'mcp', name: 'run', input: 'ls' },
    { type: 'custom_tool_call_output', call_id: 'a', output: [{ type: 'input_text', text: 'seen' }] },
    { type: 'mcp_call', id: 'mcp_1', server_label: 's', name: 'n', arguments: '{}' },
    { type: 'shell_call', call_id: 'b', action },
    { type: 'local_shell_call', id: 'lsh_1', call_id: 'c', action, status: 'completed' },
    { type: 'apply_patch_call', call_id: 'd', operation, status: 'completed' },
    { type: 'shell_call_output', call_id: 'b', output },
    { type: 'local_shell_call_output', id: 'c', output: 'b' },
    { type: 'apply_patch_call_output', call_id: 'd', status: 'failed' },
    { type: 'web_search_call', id: 'ws_2', status: 'completed' },
  ];
  const call = (id: string, name: string, args: object): object => ({ id, name, arguments: JSON.stringify(args) });
  assert.equal(messagesOf(input), [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: '', tool_calls: [call('a', 'mcp__run', { input: 'ls' })] },
    { role: 'tool', content: 'seen', tool_call_id: 'a' },
    {
      role: 'assistant',
      content: '',
      tool_calls: [call('b', 'shell', action), call('c', 'local_shell', action), call('d', 'apply_patch', operation)],
    },
    { role: 'tool', content: JSON.stringify(output), tool_call_id: 'b' },
    { role: 'tool', content: 'b', tool_call_id: 'c' },
    { role: 'tool', content: 'failed', tool_call_id: 'd' },
  ]);
  assert.equal(parseResponses({ input }).ignoredItems, ['web_search_call', 'mcp_call']);
  assert.equal(parseResponses({ input: 'x' }).ignoredItems, []);
});

test('every field that has a meaning here', () => {
  const call = parseResponses({
    model: 'tiny',
    input: 'x',
    max_output_tokens: 5,
    temperature: 0.5,
    top_p: 0.9,
    seed: 3,
    stop: 'END',
    truncation: 'auto',
    reasoning: { effort: 'low', summary: 'auto' },
    text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: null }, verbosity: 'low' },
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
    top_logprobs: 2,
    store: false,
    keep_alive: '1m',
    metadata: { a: 'b' },
    service_tier: 'flex',
    background: false,
    client_metadata: { unknown: 1 },
    parallel_tool_calls: null,
  });
  assert.equal(call.request, {
    model: 'tiny',
    max_tokens: 5,
    sampling: { temperature: 0.5, top_p: 0.9, seed: 3 },
    stop: ['END'],
    truncate: true,
    reasoning_effort: 'low',
    format: { type: 'json_schema', name: 'n', schema: { type: 'object' } },
    logprobs: 2,
    store: false,
    keep_alive_seconds: 60,
  });
  assert.ok(call.wantsSummary);
  const { metadata, temperature, tool_choice, truncation } = call.settings;
  assert.equal([metadata, temperature, tool_choice, truncation], [{ a: 'b' }, 0.5, 'auto', 'auto']);
  const numbers = parseResponses({ input: 'x', seed: 2 ** 32 + 7, top_k: -1 }).request.sampling;
  assert.equal(numbers, { seed: 7, top_k: 0 });
  for (const model of ['default', ''])
    assert.equal(parseResponses({ input: 'x', model, stop: '' }).request, { sampling: {}, stop: [] });
});

const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object' }, strict: true };
const CODEX = [
  FUNCTION,
  { type: 'web_search', external_web_access: true },
  { type: 'namespace', name: 'mcp__files__', description: 'd', tools: [{ type: 'function', name: 'read' }] },
  { type: 'custom', name: 'apply_patch', format: { type: 'text' } },
];

test('functions are taken, alone and in a namespace; tools of other types are passed over', () => {
  const { request, tools } = parseResponses({ input: 'x', tools: CODEX, parallel_tool_calls: false });
  assert.equal(request.tools, [
    { name: 'look', parameters: { type: 'object' }, strict: true },
    { name: 'mcp__files__read', parameters: {} },
  ]);
  assert.is(request.parallel_tool_calls, false);
  assert.equal(tools.ignored, ['web_search', 'custom']);
  assert.equal(tools.namespaced.get('mcp__files__read'), { name: 'read', namespace: 'mcp__files__' });
  assert.equal(tools.places, ['tools[0]', 'tools[2].tools[0]']);
});

test('every form of tool_choice', () => {
  const choice = (tool_choice: unknown): unknown =>
    parseResponses({ input: 'x', tools: CODEX, tool_choice }).request.tool_choice;
  assert.is(choice('required'), 'required');
  assert.equal(choice({ type: 'function', name: 'look' }), { name: 'look' });
  assert.equal(choice({ type: 'function', name: 'read' }), { name: 'mcp__files__read' });
  const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'look' }] };
  const { request } = parseResponses({ input: 'x', tools: CODEX, tool_choice: allowed });
  assert.is(request.tool_choice, 'required');
  assert.is(request.tools?.length, 1);
});

test('what cannot be honoured is refused by name', () => {
  const message = (content: unknown): object => ({ input: [{ role: 'user', content }] });
  const cases: readonly (readonly [object, string])[] = [
    [{ input: 7 }, 'input'],
    [{ input: [{}] }, 'input[0].type'],
    [{ input: [{ type: 'compaction_trigger' }] }, 'input[0].type'],
    [
      {
        input: [
          { type: 'web_search_call', id: 'a' },
          { type: 'shell_call', action: {} },
        ],
      },
      'input[1].call_id',
    ],
    [{ input: [{ type: 'function_call', name: 'a', arguments: '{}' }] }, 'input[0].call_id'],
    [{ input: [{ role: 'tool', content: 'a' }] }, 'input[0].role'],
    [{ input: [{ role: 'user' }] }, 'input[0].content'],
    [message([{ type: 'input_file', file_id: 'a' }]), 'input[0].content[0].type'],
    [message([{ type: 'input_text' }]), 'input[0].content[0].text'],
    [message([{ type: 'input_image', file_id: 'a' }]), 'input[0].content[0].file_id'],
    [message([{ type: 'input_image', image_url: 'http://a.example/b.png' }]), 'input[0].content[0].image_url'],
    [
      message([{ type: 'input_audio', input_audio: { data: '!', format: 'wav' } }]),
      'input[0].content[0].input_audio.data',
    ],
    [{ background: 'yes' }, 'background'],
    [{ conversation: 'a' }, 'conversation'],
    [{ prompt: { id: 'a' } }, 'prompt'],
    [{ context_management: [{ type: 'compaction' }] }, 'context_management'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ top_logprobs: 21 }, 'top_logprobs'],
    [{ text: { format: { type: 'xml' } } }, 'text.format.type'],
    [{ text: { format: { type: 'json_schema', name: 'a' } } }, 'text.format.schema'],
    [{ reasoning: { effort: 'huge' } }, 'reasoning.effort'],
    [{ metadata: { a: 1 } }, 'metadata.a'],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, index) => [index, 'a'])) }, 'metadata'],
    [{ tools: 'x' }, 'tools'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].name'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ tools: CODEX, tool_choice: { type: 'web_search' } }, 'tool_choice'],
    [{ tools: CODEX, tool_choice: { type: 'function', name: 'other' } }, 'tool_choice'],
    [{ truncation: 'some' }, 'truncation'],
  ];
  for (const [body, param] of cases) {
    const error = refused(() => {
      const call = parseResponses({ input: 'x', ...body });
      toConversation(call.instructions, call.input as Placed<ContentItem>[]);
    });
    assert.equal([error.code, error.param], ['INVALID_REQUEST', param], JSON.stringify(body));
  }
});

test('errors of backends name the fields of the caller', () => {
  const call = parseResponses({ input: 'x', tools: CODEX });
  const theirs = (param: string): unknown => {
    const error = new SvcError('INVALID_REQUEST', `${param} is wrong`, { param });
    const { param: name, message } = inTheirWords(error, call, ['instructions', 'input[4]']) as SvcError;
    assert.is(message, `${String(name)} is wrong`);
    return name;
  };
  assert.is(theirs('format.schema'), 'text.format.schema');
  assert.is(theirs('max_tokens'), 'max_output_tokens');
  assert.is(theirs('reasoning_effort'), 'reasoning.effort');
  assert.is(theirs('messages[1].content[2]'), 'input[4].content[2]');
  assert.is(theirs('messages[1].tool_call_id'), 'input[4].call_id');
  assert.is(theirs('tools[1].parameters'), 'tools[2].tools[0].parameters');
  assert.is(theirs('model'), 'model');
});

test.run();
