/** Requests of Anthropic's API become ours. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseMessages } from '../../../src/protocol/anthropic/messages-request.ts';
import { inTheirNames } from '../../../src/protocol/anthropic/names.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../../src/protocol/generate.ts';
import { invalid } from '../../../src/protocol/validate.ts';

const HI = { role: 'user', content: 'hi' };
const PNG = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };

function requestOf(fields: object): GenerateRequest {
  return parseMessages({ max_tokens: 5, messages: [HI], ...fields }).request;
}

const messagesOf = (...messages: object[]): GenerateRequest['messages'] => requestOf({ messages }).messages;

function refusal(fields: object): string | undefined {
  try {
    requestOf(fields);
  } catch (error) {
    assert.instance(error, SvcError);
    const { code, param, message } = error as SvcError;
    assert.is(code, 'INVALID_REQUEST');
    assert.not.match(message, 'secret');
    return param;
  }
  throw new Error(`it was not refused: ${JSON.stringify(fields)}`);
}

test('a minimal request', () => {
  const call = parseMessages({ model: 'default', max_tokens: 5, messages: [HI] });
  assert.equal(parseMessages({ model: '', max_tokens: 5, messages: [HI] }).request, call.request);
  assert.equal(call.request, { max_tokens: 5, messages: [HI], sampling: {}, stop: [] });
  assert.equal([call.stream, call.showsThinking, call.maxTokens], [false, true, 5]);
});

test('settings and extensions', () => {
  const call = parseMessages({
    model: 'tiny',
    max_tokens: 7,
    messages: [HI],
    stream: true,
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    stop_sequences: ['a'],
    truncate: true,
    keep_alive: '1m',
    route: 'local',
    metadata: { user_id: 'x' },
    service_tier: 'auto',
    context_management: { edits: [] },
    mcp_servers: [],
    container: null,
    temperature_of_the_room: 20,
  });
  assert.equal(call.request, {
    model: 'tiny',
    max_tokens: 7,
    messages: [HI],
    sampling: { temperature: 0, top_p: 0.5, top_k: 3 },
    stop: ['a'],
    truncate: true,
    route: 'local',
    keep_alive_seconds: 60,
  });
  assert.ok(call.stream);
});

test('the system prompt: a string, or blocks', () => {
  const systemOf = (system: unknown): unknown =>
    requestOf({ system }).messages.find(({ role }) => role === 'system')?.content;
  assert.is(systemOf('Be brief.'), 'Be brief.');
  assert.is(
    systemOf([
      { type: 'text', text: 'a', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'b' },
    ]),
    'a\nb',
  );
  assert.is(systemOf(''), undefined);
  assert.is(systemOf([]), undefined);
  const late = { role: 'system', content: [{ type: 'text', text: 'x' }] };
  const asText = '<system-reminder>\nx\n</system-reminder>';
  assert.equal(messagesOf(HI, late), [{ role: 'user', content: `${HI.content}\n${asText}` }]);
  assert.equal(messagesOf(late, HI)[0], { role: 'system', content: 'x' });
  assert.equal(requestOf({ system: 'first', messages: [late] }).messages[1], { role: 'user', content: asText });
});

test("a coding agent's changing header is dropped from the system prompt", () => {
  const headerOf = (hash: string): string =>
    `x-anthropic-billing-header: cc_version=2.1.330.${hash}; cc_entrypoint=cli; cch=${hash}00;`;
  const systems = ['a1b', '0ff'].flatMap((hash) => [
    [
      { type: 'text', text: headerOf(hash) },
      { type: 'text', text: 'You are brief.' },
    ],
    `${headerOf(hash)}You are brief.`,
    `${headerOf(hash).slice(0, -1)}\nYou are brief.`,
  ]);
  for (const system of systems)
    assert.equal(requestOf({ system }).messages[0], { role: 'system', content: 'You are brief.' });
  assert.is(requestOf({ system: [{ type: 'text', text: headerOf('a1b') }] }).messages.length, 1);
  const quoted = `It is called ${headerOf('a1b')}`;
  assert.is(requestOf({ system: quoted }).messages[0]?.content, quoted);
});

test('texts and pictures', () => {
  const [message] = messagesOf({ role: 'user', content: [{ type: 'text', text: 'a' }, PNG] });
  assert.equal(message?.content, [
    { type: 'text', text: 'a' },
    { type: 'image', media_type: 'image/png', data: 'AAAA' },
  ]);
  const url = 'https://a.example/b.png';
  assert.equal(messagesOf({ role: 'user', content: [{ type: 'image', source: { type: 'url', url } }] })[0]?.content, [
    { type: 'image_url', url },
  ]);
  const texts = [
    { type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: 'D' } },
    { type: 'document', context: null, source: { type: 'content', content: [{ type: 'text', text: 'E' }] } },
    { type: 'search_result', title: 'F', source: 'G', content: [{ type: 'text', text: 'H' }] },
  ];
  assert.is(messagesOf({ role: 'user', content: texts })[0]?.content, 'T\nD\nE\nF\nG\nH');
});

test('consecutive messages of a role are one turn', () => {
  assert.equal(messagesOf(HI, { role: 'user', content: [{ type: 'text', text: 'there' }] }), [
    { role: 'user', content: 'hi\nthere' },
  ]);
});

test('calls and results, the results first', () => {
  const use = (id: string): object => ({ type: 'tool_use', id, name: 'look', input: { at: id } });
  const messages = messagesOf(
    HI,
    { role: 'assistant', content: [{ type: 'text', text: 'Looking.' }, use('a'), use('b'), use('c')] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Here they are.' },
        { type: 'tool_result', tool_use_id: 'a', content: 'A' },
        { type: 'tool_result', tool_use_id: 'b', is_error: true, content: [{ type: 'text', text: 'B' }] },
        { type: 'tool_result', tool_use_id: 'c' },
      ],
    },
  );
  assert.equal(messages.slice(1), [
    {
      role: 'assistant',
      content: 'Looking.',
      tool_calls: ['a', 'b', 'c'].map((id) => ({ id, name: 'look', arguments: `{"at":"${id}"}` })),
    },
    { role: 'tool', tool_call_id: 'a', content: 'A' },
    { role: 'tool', tool_call_id: 'b', content: 'The tool failed:\nB' },
    { role: 'tool', tool_call_id: 'c', content: '' },
    { role: 'user', content: 'Here they are.' },
  ]);
});

test('thoughts go back, redacted ones do not', () => {
  const [, message] = messagesOf(HI, {
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'Hm.', signature: 'x' },
      { type: 'redacted_thinking', data: 'x' },
      { type: 'text', text: 'Yes' },
    ],
  });
  assert.equal(message, { role: 'assistant', content: 'Yes', reasoning: 'Hm.' });
});

test('thoughts without a text are read from a signature of svc', () => {
  const reasoningOf = (thinking: string, signature?: string): string | undefined =>
    messagesOf(HI, {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking, ...(signature === undefined ? {} : { signature }) },
        { type: 'text', text: 'Yes' },
      ],
    })[1]?.reasoning;
  const signature = `svc:${Buffer.from('Hm,\nä?').toString('base64')}`;
  assert.is(reasoningOf('', signature), 'Hm,\nä?');
  assert.is(reasoningOf('Shown.', signature), 'Shown.');
  for (const other of ['svc', 'svc:', 'EqQBCgIYAhIM', '', undefined]) assert.is(reasoningOf('', other), undefined);
});

test('tools: custom ones are offered, others passed over', () => {
  const schema = { type: 'object', properties: {} };
  const custom = { name: 'look', description: 'Looks', input_schema: schema, cache_control: { type: 'ephemeral' } };
  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 };
  const tool = { name: 'look', description: 'Looks', parameters: schema };
  const of = (tools: object[], tool_choice?: object): Partial<GenerateRequest> => {
    const {
      tools: offered,
      tool_choice: choice,
      parallel_tool_calls,
    } = requestOf({
      tools,
      ...(tool_choice === undefined ? {} : { tool_choice }),
    });
    return JSON.parse(JSON.stringify({ tools: offered, tool_choice: choice, parallel_tool_calls })) as object;
  };
  assert.equal(of([search, custom, { ...custom, name: 'see', type: 'custom', strict: true }]), {
    tools: [tool, { ...tool, name: 'see', strict: true }],
  });
  assert.equal(of([custom], { type: 'auto' }), { tools: [tool], tool_choice: 'auto' });
  assert.equal(of([custom], { type: 'any', disable_parallel_tool_use: true }), {
    tools: [tool],
    tool_choice: 'required',
    parallel_tool_calls: false,
  });
  assert.equal(of([custom], { type: 'tool', name: 'look' }), { tools: [tool], tool_choice: { name: 'look' } });
  assert.equal(of([custom], { type: 'none' }), { tools: [tool], tool_choice: 'none' });
  assert.equal(of([search], { type: 'none' }), {});
  assert.is(refusal({ tools: [search], tool_choice: { type: 'any' } }), 'tools[0].type');
});

test('a request whose only tools are ones that svc does not have is refused by their name', () => {
  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 8 };
  const bash = { type: 'bash_20250124', name: 'bash' };
  const waiting = { name: 'later', input_schema: {}, defer_loading: true };
  const messageOf = (...tools: object[]): string => {
    try {
      requestOf({ tools });
    } catch (error) {
      return (error as SvcError).message;
    }
    return '';
  };
  const web =
    'is web_search_20250305, a tool that svc does not provide (no web search, no code execution): offer tools';
  assert.match(messageOf(search, bash), `tools[0].type ${web}`);
  assert.match(messageOf(waiting, search), `tools[1].type ${web}`);
  assert.match(messageOf(bash), 'tools[0].type is bash_20250124, a tool that svc does not provide');
  const unnamed = messageOf({ type: 'secret words', name: 'x' });
  assert.is(unnamed, 'tools[0].type names a tool that svc does not provide: offer tools with an input_schema');
  assert.is(messageOf(waiting), '');
});

test('thinking and effort', () => {
  const of = (thinking: object | undefined, effort?: string): unknown[] => {
    const request = requestOf({
      ...(thinking === undefined ? {} : { thinking }),
      output_config: { effort: effort ?? null },
    });
    return [request.reasoning_effort, request.reasoning_budget_tokens, request.reasoning_optional];
  };
  assert.equal(of(undefined), [undefined, undefined, undefined]);
  assert.equal(of({ type: 'adaptive' }), [undefined, undefined, undefined]);
  assert.equal(of({ type: 'adaptive' }, 'max'), ['xhigh', undefined, true]);
  assert.equal(of(undefined, 'medium'), ['medium', undefined, true]);
  assert.equal(of({ type: 'enabled', budget_tokens: 1024 }), ['low', 1024, true]);
  assert.equal(of({ type: 'enabled', budget_tokens: 20_000 }), ['high', 20_000, true]);
  assert.equal(of({ type: 'enabled', budget_tokens: 1024 }, 'high'), ['high', 1024, true]);
  assert.equal(of({ type: 'disabled' }, 'high'), ['none', undefined, true]);
  const shows = (display: string | null): boolean =>
    parseMessages({ max_tokens: 5, messages: [HI], thinking: { type: 'adaptive', display } }).showsThinking;
  assert.equal(['summarized', 'omitted', 'updates', null].map(shows), [true, false, false, true]);
});

test('a JSON schema, by both names', () => {
  const format = { type: 'json_schema', schema: { type: 'object' } };
  assert.equal(requestOf({ output_config: { format } }).format, format);
  assert.equal(requestOf({ output_format: format }).format, format);
});

test('what is wrong is refused by name, without the text', () => {
  const content = (...blocks: object[]): object => ({ messages: [HI, { role: 'user', content: blocks }] });
  const cases: readonly (readonly [object, string | undefined])[] = [
    [{ max_tokens: undefined }, 'max_tokens'],
    [{ max_tokens: null }, 'max_tokens'],
    [{ max_tokens: -1 }, 'max_tokens'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'secret', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 7 }] }, 'messages[0].content'],
    [content({ type: 'secret' }), 'messages[1].content[0].type'],
    [content({ type: 'text' }), 'messages[1].content[0].text'],
    [content({ type: 'tool_use', id: 'a', name: 'b', input: {} }), 'messages[1].content[0].type'],
    [
      content({ type: 'image', source: { type: 'base64', media_type: 'image/bmp', data: 'AA' } }),
      'messages[1].content[0].source.media_type',
    ],
    [content({ type: 'image', source: { type: 'file', file_id: 'secret' } }), 'messages[1].content[0].source.type'],
    [content({ type: 'document', source: { type: 'base64', data: 'secret' } }), 'messages[1].content[0].source.type'],
    [
      content({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'secret' }] }),
      'messages[1].content[0].content[0].type',
    ],
    [{ messages: [HI, { role: 'assistant', content: [PNG] }] }, 'messages[1].content[0].type'],
    [{ system: [{ type: 'image' }] }, 'system[0].type'],
    [{ system: 7 }, 'system'],
    [{ tools: 'secret' }, 'tools'],
    [{ tools: [{ name: 'a' }] }, 'tools[0].input_schema'],
    [{ tools: [{ type: 'secret', name: 'a' }] }, 'tools[0].type'],
    [{ tools: [{ input_schema: {} }] }, 'tools[0].name'],
    [{ tool_choice: { type: 'secret' } }, 'tool_choice.type'],
    [{ tool_choice: { type: 'any' } }, 'tool_choice'],
    [{ thinking: { type: 'secret' } }, 'thinking.type'],
    [{ thinking: { type: 'enabled' } }, 'thinking.budget_tokens'],
    [{ output_config: { effort: 'secret' } }, 'output_config.effort'],
    [{ output_config: { format: { type: 'secret' } } }, 'output_config.format.type'],
    [{ stop_sequences: 'secret' }, 'stop_sequences'],
    [{ temperature: 'secret' }, 'temperature'],
    [{ stream: 'secret' }, 'stream'],
    [{ mcp_servers: [{ url: 'secret' }] }, 'mcp_servers'],
    [{ container: 'secret' }, 'container'],
  ];
  for (const [fields, param] of cases) assert.is(refusal(fields), param, JSON.stringify(fields));
  for (const body of [null, [], 'secret', 7]) assert.throws(() => parseMessages(body), /must be a JSON object/);
});

test("a backend's errors name the caller's fields", () => {
  const { places } = parseMessages({
    max_tokens: 5,
    system: 'x',
    messages: [
      HI,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'x' },
          { type: 'tool_use', id: 'a', name: 'b', input: {} },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'tool_result', tool_use_id: 'a' }, PNG] },
      { role: 'user', content: 'x' },
    ],
    tools: [
      { type: 'bash_20250124', name: 'bash' },
      { name: 'b', input_schema: {} },
    ],
    output_config: { format: { type: 'json_schema', schema: {} } },
  });
  const nameOf = (param: string): unknown => {
    const error = inTheirNames(invalid(param, 'is wrong'), places) as SvcError;
    assert.is(error.message, `${String(error.param)} is wrong`);
    return error.param;
  };
  const names: Readonly<Record<string, string>> = {
    messages: 'messages',
    'messages[0].content': 'system.content',
    'messages[1].content': 'messages[0].content',
    'messages[2].tool_calls[0].arguments': 'messages[1].content[1].input',
    'messages[3].tool_call_id': 'messages[2].content[1].tool_use_id',
    'messages[4].content[1]': 'messages[2].content[2]',
    'messages[4].content[2]': 'messages[3].content',
    'messages[99]': 'messages[99]',
    'tools[0].parameters.properties.a': 'tools[1].input_schema.properties.a',
    tools: 'tools',
    'format.schema.properties.a': 'output_config.format.schema.properties.a',
    format: 'output_config.format',
    reasoning_effort: 'thinking',
    model: 'model',
  };
  for (const [ours, theirs] of Object.entries(names)) assert.is(nameOf(ours), theirs);
  const other = new Error('x');
  assert.is(inTheirNames(other, places), other);
});

test.run();
