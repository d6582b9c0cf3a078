/** What svc sends to providers in this API it understands itself, and it reads its own events as it reads a provider's. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ResponsesReader } from '../../../src/backends/cloud/wires/responses/responses-reader.ts';
import { responsesBody } from '../../../src/backends/cloud/wires/responses/responses-request.ts';
import type { WireEvent } from '../../../src/backends/cloud/wire.ts';
import type { FinishReason, GenerateEvent, GenerateRequest } from '../../../src/protocol/generate.ts';
import { ResponseBuilder } from '../../../src/protocol/openai/responses/response-builder.ts';
import { toConversation } from '../../../src/protocol/openai/responses/input.ts';
import type { ContentItem, Placed } from '../../../src/protocol/openai/responses/items.ts';
import { parseResponses } from '../../../src/protocol/openai/responses/request.ts';
import { FINISH, START } from '../scripted.ts';

test('a request to a provider is read as the same request', () => {
  const request: GenerateRequest = {
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image', media_type: 'image/png', data: 'aGVsbG8=' },
        ],
      },
      { role: 'assistant', content: 'b', tool_calls: [{ id: 'c', name: 'look', arguments: '{"x": 1}' }] },
      { role: 'tool', content: 'seen', tool_call_id: 'c' },
    ],
    sampling: { temperature: 0.5, top_p: 0.9 },
    stop: [],
    max_tokens: 7,
    tools: [{ name: 'look', parameters: { type: 'object' } }],
    tool_choice: { name: 'look' },
    parallel_tool_calls: false,
    format: { type: 'json_schema', name: 'n', schema: { type: 'object' }, strict: true },
    reasoning_effort: 'low',
    logprobs: 2,
  };
  const call = parseResponses(responsesBody(request, 'tiny', {}));
  const { messages } = toConversation(call.instructions, call.input as Placed<ContentItem>[]);
  const { store, tools, ...rest } = call.request;
  assert.is(store, false);
  assert.is(tools?.[0]?.name, 'look');
  const { tools: _, ...expected } = request;
  assert.equal({ ...rest, messages }, { ...expected, model: 'tiny' });
  assert.ok(call.stream && call.wantsSummary);
});

function readBack(events: readonly GenerateEvent[], reason: FinishReason, fields: object = {}): WireEvent[] {
  const answer = new ResponseBuilder({
    id: `resp_${'1'.repeat(32)}`,
    call: parseResponses({ input: 'x', ...fields }),
    store: true,
  });
  const sent = [START, ...events, { ...FINISH, reason }].flatMap((event) => answer.take(event));
  const reader = new ResponsesReader();
  const read = [...sent, ...answer.last()].flatMap((event) => [
    ...reader.read({ name: event.type, data: JSON.stringify(event) }),
  ]);
  return [...read, ...reader.end()];
}

test('reasoning that a client keeps as encrypted content alone is read back', () => {
  const include = ['reasoning.encrypted_content'];
  for (const reasoning of [{}, { summary: 'auto' }]) {
    const call = parseResponses({ input: 'x', include, reasoning });
    const answer = new ResponseBuilder({ id: `resp_${'1'.repeat(32)}`, call, store: false });
    for (const event of [START, { type: 'reasoning', text: 'Hm,\n' }, { type: 'reasoning', text: 'ä?' }, FINISH])
      answer.take(event as GenerateEvent);
    const [item] = answer.response.output as readonly { readonly encrypted_content?: string }[];
    const kept = { type: 'reasoning', summary: [], encrypted_content: item?.encrypted_content };
    const said = { role: 'assistant', content: 'Yes.' };
    const read = (first: object): unknown =>
      toConversation(null, parseResponses({ input: [first, said] }).input as Placed<ContentItem>[]).messages;
    assert.equal(read(kept), [{ ...said, reasoning: 'Hm,\nä?' }]);
    assert.equal(read({ ...kept, encrypted_content: 'gAAAAABo' }), [said]);
  }
});

test("an answer is read back as one message of the assistant, directly before its calls' results", () => {
  const look = (index: number): GenerateEvent => ({
    type: 'tool_call',
    index,
    id: `call_${String(index)}`,
    name: 'look',
    arguments: '{}',
  });
  const answer = new ResponseBuilder({
    id: `resp_${'1'.repeat(32)}`,
    call: parseResponses({ input: 'x' }),
    store: false,
  });
  const events: GenerateEvent[] = [
    START,
    { type: 'reasoning', text: 'hm' },
    look(0),
    { type: 'text', text: 'Done.' },
    look(1),
    { type: 'text', text: '\n' },
    { ...FINISH, reason: 'tool_calls' },
  ];
  for (const event of events) answer.take(event);
  const { output } = answer.response;
  assert.equal(
    output.map(({ type }) => type),
    ['reasoning', 'function_call', 'message', 'function_call', 'message'],
  );
  const results = ['call_0', 'call_1'].map((call_id) => ({ type: 'function_call_output', call_id, output: 'seen' }));
  const { input } = parseResponses({ input: [{ role: 'user', content: 'x' }, ...output, ...results] });
  const { messages } = toConversation(null, input as Placed<ContentItem>[]);
  const calls = ['call_0', 'call_1'].map((id) => ({ id, name: 'look', arguments: '{}' }));
  assert.equal(messages, [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'Done.', reasoning: 'hm', tool_calls: calls },
    { role: 'tool', content: 'seen', tool_call_id: 'call_0' },
    { role: 'tool', content: 'seen', tool_call_id: 'call_1' },
  ]);
});

test('the events of an answer are read as the same answer', () => {
  const token = { token: 'hi', bytes: [104, 105], logprob: -1 };
  const events: GenerateEvent[] = [
    { type: 'reasoning', text: 'hm' },
    { type: 'text', text: 'hi', logprobs: [{ ...token, top: [token] }] },
    { type: 'tool_call', index: 0, id: 'call_a', name: 'look', arguments: '' },
    { type: 'tool_call', index: 0, arguments: '{}' },
    { type: 'tool_call', index: 1, id: 'call_b', name: 'look', arguments: '' },
    { type: 'tool_call', index: 1, arguments: '{"x":' },
    { type: 'tool_call', index: 1, arguments: '1}' },
  ];
  for (const fields of [{}, { reasoning: { summary: 'auto' } }]) {
    const read = readBack(events, 'tool_calls', fields);
    assert.equal(read[0], { type: 'started', model: 'tiny' });
    assert.equal(read.slice(1, -2), events);
    assert.equal(read.slice(-2), [
      { type: 'usage', usage: FINISH.usage },
      { type: 'finish', reason: 'tool_calls' },
    ]);
  }
  for (const reason of ['stop', 'length', 'content_filter'] as const)
    assert.equal(readBack([{ type: 'text', text: 'a' }], reason).at(-1), { type: 'finish', reason });
});

test.run();
