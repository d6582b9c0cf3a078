/** What a local engine gets of a chat's tools, calls and results, and which chats are refused before it. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toChat } from '../../src/backends/local/chat.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest, Message, Tool } from '../../src/protocol/generate.ts';
import { LIMITS } from '../../src/protocol/limits.ts';

const WEATHER: Tool = {
  name: 'weather',
  description: 'Tells the weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const CALL: Message = {
  role: 'assistant',
  content: '',
  reasoning: 'A city is named.',
  tool_calls: [{ id: 'a', name: 'weather', arguments: '{ "city": "\\u003c|im_end|\\u003e" }' }],
};
const RESULT: Message = { role: 'tool', content: 'rain', tool_call_id: 'a' };
const QUESTION: Message = { role: 'user', content: 'Rain?' };

const request = (given: Partial<GenerateRequest>): GenerateRequest => ({
  messages: [QUESTION],
  sampling: {},
  stop: [],
  ...given,
});

function refused(given: Partial<GenerateRequest>): string {
  try {
    toChat(request(given));
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'INVALID_REQUEST');
    return (error as SvcError).param ?? '';
  }
  throw new Error('it was accepted');
}

/** An object of so many properties. */
function properties(count: number, name = (index: number): string => `p${String(index)}`): Tool['parameters'] {
  return { properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [name(index), {}])) };
}

/** llama.cpp's own converter overflows its stack, or takes minutes for them. */
test('schemas of tools that are too large are refused, also where they need not be enforced', () => {
  const { schemaMembers: members, schemaNameLength: length, schemaPatternLength: pattern } = LIMITS;
  const not = { not: {} };
  const one = (schema: object): Tool['parameters'] => ({ ...not, properties: { a: schema } });
  const largest: readonly Tool['parameters'][] = [
    { ...not, ...properties(members) },
    one({ ['_'.repeat(length)]: {} }),
    one({ pattern: '('.repeat(pattern) }),
    one({ $ref: '#'.repeat(pattern) }),
    one({ type: Array.from({ length: 16 }, () => 'string') }),
    one({ enum: Array.from({ length: LIMITS.schemaEnumValues }, (_, index) => index) }),
  ];
  const tooLarge: readonly Tool['parameters'][] = [
    { ...not, ...properties(members + 1) },
    one({ ['_'.repeat(length + 1)]: {} }),
    one({ pattern: '('.repeat(pattern + 1) }),
    one({ $ref: '#'.repeat(pattern + 1) }),
    one({ type: Array.from({ length: 17 }, () => 'string') }),
    one({ enum: Array.from({ length: LIMITS.schemaEnumValues + 1 }, (_, index) => index) }),
  ];
  for (const parameters of largest) assert.ok(toChat(request({ tools: [{ name: 'a', parameters }] })));
  for (const parameters of tooLarge) {
    const tools = [WEATHER, { name: 'a', parameters }];
    assert.is(refused({ tools }), 'tools[1].parameters');
    assert.ok(toChat(request({ tools, tool_choice: 'none' })));
  }
});

test('an agent that sends the same tools with every turn has them compiled once', () => {
  const toolsOf = (given: Partial<GenerateRequest>): unknown => toChat(request(structuredClone(given))).chat?.tools;
  const first = toolsOf({ tools: [WEATHER] });
  assert.ok(first);
  assert.is(toolsOf({ tools: [WEATHER] }), first);
  assert.is.not(toolsOf({ tools: [WEATHER], tool_choice: 'required' }), first);
  assert.is.not(toolsOf({ tools: [{ ...WEATHER, strict: true }] }), first);
});

test('the schemas of all tools together are bounded', () => {
  const tools = (count: number, parameters: Tool['parameters']): Tool[] =>
    Array.from({ length: count }, (_, index) => ({ name: `t${String(index)}`, parameters }));
  const many = properties(LIMITS.schemaMembers - 1);
  assert.ok(toChat(request({ tools: tools(64, many) })));
  assert.is(refused({ tools: tools(65, many) }), 'tools[64].parameters');
  const long = properties(64, (index) => `${'_'.repeat(1000)}${String(index)}`);
  assert.ok(toChat(request({ tools: tools(4, long) })));
  assert.is(refused({ tools: tools(5, long) }), 'tools[4].parameters');
});

test('pictures and sounds stand where they are in the text, with no line break beside them', () => {
  const image = { type: 'image', media_type: 'image/png', data: 'QUJD' } as const;
  const audio = { type: 'audio', media_type: 'audio/wav', data: 'UklG' } as const;
  const text = (words: string): { type: 'text'; text: string } => ({ type: 'text', text: words });
  const content = [text('höre'), audio, text('und'), text('sieh'), image, image];
  assert.equal(toChat(request({ messages: [{ role: 'user', content }] })).messages, [
    {
      role: 'user',
      content: 'höreund\nsieh',
      media: [
        { type: 'audio', data: 'UklG', at: 5, part: 1 },
        { type: 'image', data: 'QUJD', at: 13, part: 4 },
        { type: 'image', data: 'QUJD', at: 13, part: 5 },
      ],
    },
  ]);
  const halves = [text('\ud83d'), image, text('\ude00'), image];
  const [broken] = toChat(request({ messages: [{ role: 'user', content: halves }] })).messages ?? [];
  assert.is(broken?.content, '\ufffd\ufffd');
  assert.equal(
    broken?.media?.map(({ at }) => at),
    [3, 6],
  );
  const byUrl = { type: 'image_url', url: 'https://example.com/a.png' } as const;
  assert.is(refused({ messages: [{ role: 'user', content: [text('a'), byUrl] }] }), 'messages[0].content[1]');
  // The names of both APIs whose pictures may have a URL.
  assert.throws(() => toChat(request({ messages: [{ role: 'user', content: [byUrl] }] })), /data URL.*source\.type/);
  const many = Array.from({ length: 65 }, () => image);
  assert.is(refused({ messages: [{ role: 'user', content: many }] }), 'messages');
});

test('a call and its result are sent with the name of the tool, and without needless escapes', () => {
  const { messages } = toChat(request({ messages: [QUESTION, CALL, RESULT] }));
  assert.equal(messages, [
    { role: 'user', content: 'Rain?' },
    {
      role: 'assistant',
      content: '',
      reasoning: 'A city is named.',
      tool_calls: [{ id: 'a', name: 'weather', arguments: '{"city":"<|im_end|>"}' }],
    },
    { role: 'tool', content: 'rain', tool_call_id: 'a', tool_name: 'weather' },
  ]);
});

/** The arguments of a call in the history as the engine gets them. */
function sent(json: string): string | undefined {
  const call = { ...CALL, tool_calls: [{ id: 'a', name: 'weather', arguments: json }] };
  return toChat(request({ messages: [QUESTION, call] })).messages?.[1]?.tool_calls?.[0]?.arguments;
}

test('arguments of a call keep their numbers and the order of their names; strings lose needless escapes', () => {
  const numbers = '{"b":1234567890123456789,"2":1.0,"1":-0,"x":1e400,"y":[0.10,1E2]}';
  assert.is(sent(numbers), numbers);
  assert.is(sent(' {\n\t"a" : [ 1.0 , "b  \\u0020\\"  : c" ]\r\n} '), '{"a":[1.0,"b   \\"  : c"]}');
  assert.is(sent('{"\\u003c\\u007c":"\\u003C\\/\\ud83d\\ude00\\\\","\\\\":"\\n"}'), '{"<|":"</😀\\\\","\\\\":"\\n"}');
  const long = `{"a":"${'\\n'.repeat(8_000_000)}"}`;
  assert.is(sent(long), long);
});

test('arguments that a model left incomplete or wrote as no object are kept as a text', () => {
  for (const nothing of ['', ' \n', 'null', '""', '"null"']) assert.is(sent(nothing), '{}', nothing);
  assert.is(sent('{"city":"U'), '{"invalid_arguments":"{\\"city\\":\\"U"}');
  assert.is(sent('[1]'), '{"invalid_arguments":"[1]"}');
  assert.is(sent('<|im_end|>\\'), '{"invalid_arguments":"<|im_end|>\\\\"}');
  // The AI SDK sends a text that it could not parse as a JSON string.
  assert.is(sent(JSON.stringify('{"city":"U')), '{"invalid_arguments":"{\\"city\\":\\"U"}');
  assert.is(sent(JSON.stringify('{"city": "Ulm"}')), '{"city":"Ulm"}');
});

test('results without an id answer the open calls in their order', () => {
  const calls: Message = {
    role: 'assistant',
    content: '',
    tool_calls: ['a', 'b'].map((id) => ({ id, name: `of_${id}`, arguments: '{}' })),
  };
  const { messages = [] } = toChat(
    request({ messages: [QUESTION, calls, { role: 'tool', content: '1' }, { role: 'tool', content: '2' }] }),
  );
  assert.equal(
    messages.slice(2).map(({ tool_call_id, tool_name }) => [tool_call_id, tool_name]),
    [
      ['a', 'of_a'],
      ['b', 'of_b'],
    ],
  );
});

test('a call without its result does not get that of a later turn with the same id', () => {
  const turn = (id: string, tool: string): Message => ({
    role: 'assistant',
    content: '',
    tool_calls: [{ id, name: tool, arguments: '{}' }],
  });
  for (const id of ['a', '']) {
    const result: Message = { role: 'tool', content: '1', tool_call_id: id };
    const toolsOf = (messages: Message[]): unknown =>
      toChat(request({ messages })).messages?.flatMap(({ tool_name }) => tool_name ?? []);
    assert.equal(toolsOf([turn(id, 'cut'), QUESTION, turn(id, 'done'), result]), ['done']);
    // Calls at once may be in messages of their own.
    assert.equal(toolsOf([QUESTION, turn(id, 'one'), turn(id, 'two'), result, result]), ['one', 'two']);
  }
});

test('the choices of a request share what its tools are compiled to', () => {
  const asked = request({ tools: [WEATHER] });
  const toolsOf = (more: object): unknown => toChat({ ...asked, ...more }).chat?.tools;
  assert.is(toolsOf({}), toolsOf({}));
  assert.is.not(toolsOf({}), toolsOf({ tool_choice: 'required' }));
  assert.equal(toolsOf({}), toChat(request({ tools: [{ ...WEATHER }] })).chat?.tools);
});

test('arguments follow a grammar; those that need not, if there is one', () => {
  const unenforceable: Tool = { name: 'odd', parameters: { type: 'object', not: {} } };
  const { chat } = toChat(request({ tools: [WEATHER, unenforceable] }));
  const [weather, odd] = chat?.tools ?? [];
  assert.match(weather?.grammar ?? '', /^arguments-0-root ::= [^]*city/);
  assert.is(weather?.strict, false);
  assert.is(odd?.grammar, '');
  assert.is(refused({ tools: [WEATHER, { ...unenforceable, strict: true }] }), 'tools[1].parameters.not');
  assert.is(refused({ tools: [unenforceable], tool_choice: 'required' }), 'tools[0].parameters.not');
  assert.is(refused({ tools: [WEATHER, unenforceable], tool_choice: { name: 'odd' } }), 'tools[1].parameters.not');
  assert.is(toChat(request({ tools: [unenforceable], tool_choice: 'none' })).chat?.tool_choice, 'none');
});

test('the tools of a request have one budget of work, and none is compiled once it is spent', () => {
  const kinds = Array.from({ length: 400 }, (_, kind) => ({ const: kind }));
  let reads = 0;
  const tool = (name: string): Tool => {
    // Each look at the parameters reads `oneOf`, also those that bound them, and write them for the template and as a
    // key.
    const parameters = Object.defineProperty({ type: 'object', title: 'x' }, 'oneOf', {
      enumerable: true,
      get: () => ((reads += 1), kinds),
    });
    return { name, parameters };
  };
  const tools = [...Array.from({ length: 20 }, (_, index) => tool(`t${String(index)}`)), WEATHER];
  const { chat } = toChat(request({ tools }));
  assert.ok(
    chat?.tools?.every(({ grammar }) => grammar === ''),
    'WEATHER was compiled after the budget was spent',
  );
  assert.ok(reads < 80, `${String(reads)} reads`);
  assert.ok(toChat(request({ tools: [WEATHER, ...tools.slice(0, -1)] })).chat?.tools?.[0]?.grammar);
  const strict = { ...WEATHER, strict: true };
  assert.is(refused({ tools: [...tools.slice(0, -1), strict] }), 'tools[20].parameters');
});

test('one tool by its name', () => {
  const { chat } = toChat(request({ tools: [WEATHER], tool_choice: { name: 'weather' } }));
  assert.is(chat?.tool_choice, 'required');
  assert.is(chat?.tool_name, 'weather');
  assert.is(chat?.tools?.[0]?.strict, true);
});

test('a last text of the assistant is continued', () => {
  const { chat } = toChat(request({ messages: [QUESTION, { role: 'assistant', content: 'It' }] }));
  assert.is(chat?.continue_last, true);
  assert.is(toChat(request({ messages: [QUESTION, CALL] })).chat, undefined);
  const thinking: Message = { role: 'assistant', content: '', reasoning: 'A city' };
  assert.is(toChat(request({ messages: [QUESTION, thinking] })).chat?.continue_last, true);
});

test('a last text of the assistant is a finished turn if a call is forced; thoughts before a call are continued', () => {
  const last = (message: Partial<Message>, more: Partial<GenerateRequest>): boolean | undefined => {
    const messages: Message[] = [QUESTION, { role: 'assistant', content: '', ...message }];
    return toChat(request({ messages, tools: [WEATHER], ...more })).chat?.continue_last;
  };
  for (const tool_choice of ['required', { name: 'weather' }] as const) {
    assert.is(last({ content: 'It rains.' }, { tool_choice }), undefined);
    assert.is(last({ reasoning: 'A city' }, { tool_choice }), true);
  }
  for (const more of [{}, { tool_choice: 'auto' }, { tool_choice: 'none' }] as const)
    assert.is(last({ content: 'It' }, more), true);
});

test('a last message of the assistant that is empty is left out: the answer begins anew', () => {
  for (const content of ['', [], [{ type: 'text', text: '' } as const]]) {
    const empty: Message = { role: 'assistant', content, reasoning: '' };
    const { messages, chat } = toChat(request({ messages: [QUESTION, empty] }));
    assert.equal(messages, [{ role: 'user', content: 'Rain?' }]);
    assert.is(chat, undefined);
    assert.is(toChat(request({ messages: [QUESTION, empty, QUESTION] })).messages?.length, 3);
  }
});

for (const [param, given] of [
  ['tool_choice', { tools: [WEATHER], tool_choice: { name: 'whether' } }],
  ['tool_choice', { tool_choice: 'required' }],
  ['tools[1].name', { tools: [WEATHER, WEATHER] }],
  ['tools[0].name', { tools: [{ ...WEATHER, name: 'a"b' }] }],
  ['messages[1].tool_call_id', { messages: [QUESTION, RESULT] }],
  ['messages[3].tool_call_id', { messages: [QUESTION, CALL, RESULT, RESULT] }],
  ['messages[0].tool_calls', { messages: [{ ...CALL, role: 'user' }] }],
] as [string, Partial<GenerateRequest>][]) {
  test(`${param} is named: ${JSON.stringify(given).slice(0, 80)}`, () => {
    assert.is(refused(given), param);
  });
}

test.run();
