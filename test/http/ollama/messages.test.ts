/** Converts the messages of Ollama's chats: calls of tools and their results, which Ollama's messages name. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseOllamaChat } from '../../../src/protocol/ollama/chat-request.ts';
import type { Message } from '../../../src/protocol/generate.ts';

const HELLO = [{ role: 'user', content: 'hi' }];
const messagesOf = (messages: object[]): readonly Message[] =>
  parseOllamaChat({ model: 'm', messages }).request?.messages ?? [];
const call = (name: string, id?: string) => ({ ...(id === undefined ? {} : { id }), function: { name } });

test('results of tools find their calls by id, by the tool, or in order', () => {
  const messages = [
    ...HELLO,
    { role: 'assistant', content: null, thinking: 'hm', tool_calls: [call('a'), call('b'), call('a'), call('c', 'X')] },
    { role: 'tool', content: '1', tool_name: 'b' },
    { role: 'tool', content: '2', tool_call_id: 'X' },
    { role: 'tool', content: '3' },
    { role: 'tool', content: '4', tool_name: 'a' },
  ];
  const made = messagesOf(messages);
  assert.equal(made[1], {
    role: 'assistant',
    content: '',
    reasoning: 'hm',
    tool_calls: ['call00001', 'call00002', 'call00003', 'X'].map((id, index) => ({
      id,
      name: 'abac'[index],
      arguments: '{}',
    })),
  });
  assert.equal(
    made.slice(2).map((message) => message.tool_call_id),
    ['call00002', 'X', 'call00001', 'call00003'],
  );
});

test('a result whose call was cut off the history gets a call, and one with an unknown id the next one', () => {
  const rolesOf = (messages: object[]): unknown[] =>
    messagesOf(messages).map(({ role, tool_calls = [], tool_call_id }) => [
      role,
      ...tool_calls.map(({ id, name, arguments: json }) => `${name}${json} ${id}`),
      ...(tool_call_id === undefined ? [] : [tool_call_id]),
    ]);
  assert.equal(
    rolesOf([
      { role: 'tool', content: '1', tool_name: 'a' },
      { role: 'assistant', tool_calls: [call('b'), call('c')] },
      { role: 'tool', content: '2', tool_call_id: 'gone', tool_name: 'c' },
      { role: 'tool', content: '3', tool_call_id: 'gone' },
      { role: 'tool', content: '4', tool_call_id: 'gone', tool_name: '' },
      ...HELLO,
    ]),
    [
      ['assistant', 'a{} call00001'],
      ['tool', 'call00001'],
      ['assistant', 'b{} call00002', 'c{} call00003'],
      ['tool', 'call00003'],
      ['tool', 'call00002'],
      ['assistant', 'tool{} call00004'],
      ['tool', 'call00004'],
      ['user'],
    ],
  );
});

test('null means absent in calls and tools, except in arguments and schemas; an empty id is none', () => {
  const asked = { index: 0, name: 'a', arguments: { at: null } };
  const called = (more: object) => [{ role: 'assistant', tool_calls: [{ function: asked, ...more }] }];
  const results = (more: object) => [{ role: 'tool', content: '1', ...more }];
  const plain = messagesOf([...called({}), ...results({})]);
  assert.is(plain[0]?.tool_calls?.[0]?.arguments, '{"at":null}');
  for (const none of [null, ''])
    assert.equal(messagesOf([...called({ id: none }), ...results({ tool_call_id: none })]), plain);
  assert.is(messagesOf(called({ function: { name: 'a', arguments: null } }))[0]?.tool_calls?.[0]?.arguments, '{}');
  const toolsOf = (tool: object) => parseOllamaChat({ model: 'm', messages: HELLO, tools: [tool] }).request?.tools;
  const parameters = { type: 'object', default: null };
  assert.equal(toolsOf({ type: null, function: { name: 'a', description: null, strict: null, parameters } }), [
    { name: 'a', parameters },
  ]);
  assert.equal(toolsOf({ function: { name: 'a', parameters: null } }), [{ name: 'a', parameters: {} }]);
});

test.run();
