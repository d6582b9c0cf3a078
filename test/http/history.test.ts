/**
 * What svc has answered, it takes back as history: every API reads its own answers, also those that were cut off. So it
 * does calls of other servers, whose ids may be empty or not unique.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toChat } from '../../src/backends/local/chat.ts';
import type { FinishReason, GenerateEvent, Message } from '../../src/protocol/generate.ts';
import { ask } from './ask.ts';
import { FINISH, hello, START, startScripted, text, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());

interface Api {
  readonly path: string;
  readonly field: 'messages' | 'input';
  readonly more?: object;
  /** The part of an answer that a client keeps. */
  kept(answer: any): readonly object[];
  /** Calls at once, each with one of the ids, and their results in the same order. */
  called(ids: readonly string[]): readonly object[];
}

const name = (index: number): string => `of_${String(index)}`;

const APIS: readonly Api[] = [
  {
    path: '/v1/chat/completions',
    field: 'messages',
    more: { logprobs: true },
    kept: ({ choices }) => choices.map(({ message }: { message: object }) => message),
    called: (ids) => [
      {
        role: 'assistant',
        content: null,
        tool_calls: ids.map((id, at) => ({ id, type: 'function', function: { name: name(at), arguments: '{}' } })),
      },
      ...ids.map((id, at) => ({ role: 'tool', tool_call_id: id, content: String(at) })),
    ],
  },
  {
    path: '/v1/responses',
    field: 'input',
    kept: ({ output }) => output,
    called: (ids) => [
      ...ids.map((id, at) => ({ type: 'function_call', call_id: id, name: name(at), arguments: '{}' })),
      ...ids.map((id, at) => ({ type: 'function_call_output', call_id: id, output: String(at) })),
    ],
  },
  {
    path: '/v1/messages',
    field: 'messages',
    more: { max_tokens: 9 },
    kept: ({ role, content }) => [{ role, content }],
    called: (ids) => [
      { role: 'assistant', content: ids.map((id, at) => ({ type: 'tool_use', id, name: name(at), input: {} })) },
      {
        role: 'user',
        content: ids.map((id, at) => ({ type: 'tool_result', tool_use_id: id, content: String(at) })),
      },
    ],
  },
  {
    path: '/api/chat',
    field: 'messages',
    more: { stream: false },
    kept: ({ message }) => [message],
    called: (ids) => [
      { role: 'assistant', tool_calls: ids.map((id, at) => ({ id, function: { name: name(at), arguments: {} } })) },
      ...ids.map((id, at) => ({ role: 'tool', tool_call_id: id, content: String(at) })),
    ],
  },
];

const thought: GenerateEvent = { type: 'reasoning', text: 'A city is named.' };
const call = (index: number, json: string, id = `call${String(index)}`): GenerateEvent => ({
  type: 'tool_call',
  index,
  id,
  name: 'weather',
  arguments: json,
});
const likely: GenerateEvent = {
  type: 'text',
  text: 'hi',
  logprobs: [{ token: 'hi', bytes: [104, 105], logprob: -1, top: [] }],
};

const ANSWERS: Readonly<Record<string, readonly [events: readonly GenerateEvent[], reason: FinishReason]>> = {
  'a text with probabilities': [[likely], 'stop'],
  'reasoning and a text': [[thought, text('Rain.')], 'stop'],
  'reasoning that was cut off': [[thought], 'length'],
  'a text that was cut off': [[text('Ra')], 'length'],
  'a text that was withheld': [[text('Ra')], 'content_filter'],
  nothing: [[], 'stop'],
  'calls after a text': [[thought, text('Look:'), call(0, '{"city":"Ulm"}'), call(1, '{"city":"Bonn"}')], 'tool_calls'],
  'a call without arguments': [[call(0, '')], 'tool_calls'],
  // LiteLLM appends the signature of Gemini's thoughts.
  'a call with a long id': [[call(0, '{}', `call__thought__${'x'.repeat(20_000)}`)], 'tool_calls'],
  'a call that was cut off': [[call(0, '{"city":"Ulm"}'), call(1, '{"city":"U')], 'length'],
  'a call that was cut off before its arguments': [[call(0, '')], 'length'],
};

const isAlternating = (messages: readonly Message[]): boolean =>
  messages.every(({ role }, index) => role === (index % 2 === 0 ? 'user' : 'assistant'));

for (const { path, field, more, kept } of APIS)
  for (const [name, [events, reason]] of Object.entries(ANSWERS))
    test(`${path}: ${name}`, async () => {
      const send = (turns: readonly object[]) =>
        ask({ port: listener.port }, path, { body: { model: 'tiny', ...more, [field]: turns } });
      listener.backend.script = async function* () {
        yield START;
        yield* events;
        yield { ...FINISH, reason };
      };
      const question = { role: 'user', content: 'Rain?' };
      const answer = await send([question]);
      assert.is(answer.status, 200, answer.text);

      listener.backend.script = hello;
      const history = [question, ...kept(answer.json())];
      const next = await send([...history, { role: 'user', content: 'Go on.' }]);
      assert.is(next.status, 200, next.text);
      const request = listener.backend.requests.at(-1)!;
      // Many templates refuse two turns of the user in a row.
      assert.ok(isAlternating(request.messages), JSON.stringify(request.messages));
      assert.is(toChat(request).messages?.length, 3);
      assert.is((await send(history)).status, 200);
    });

const IDS: Readonly<Record<string, readonly string[]>> = {
  'an empty id': [''],
  'several empty ids': ['', ''],
  'one id for two calls': ['w', 'w'],
  'an id beside an empty one and one like those that empty ones get': ['call00001', '', 'w', '', 'call00001'],
};

for (const { path, field, more, called } of APIS)
  for (const [what, ids] of Object.entries(IDS))
    test(`${path}: calls of another server with ${what}`, async () => {
      listener.backend.script = hello;
      const question = { role: 'user', content: 'Rain?' };
      const turns = [question, ...called(ids), ...called(ids)];
      const answer = await ask({ port: listener.port }, path, { body: { model: 'tiny', ...more, [field]: turns } });
      assert.is(answer.status, 200, answer.text);
      const { messages = [] } = toChat(listener.backend.requests.at(-1)!);
      const made = messages.flatMap(({ tool_calls = [] }) => tool_calls);
      const results = messages.filter(({ role }) => role === 'tool');
      assert.is(made.length, 2 * ids.length);
      assert.equal(
        results.map(({ content, tool_name, tool_call_id }) => [content, tool_name, tool_call_id]),
        made.map((each, index) => [String(index % ids.length), each.name, each.id]),
      );
      for (const turn of [made.slice(0, ids.length), made.slice(ids.length)])
        assert.is(new Set(turn.map(({ id }) => id)).size, ids.length);
      assert.ok(made.every(({ id }) => id !== ''));
    });

test('an answer that was cut off in its reasoning, without the content that it does not have', async () => {
  listener.backend.script = hello;
  const turns = [
    { role: 'user', content: 'Rain?' },
    { role: 'assistant', reasoning_content: 'A city is named.' },
    { role: 'user', content: 'Go on.' },
  ];
  const answer = await ask({ port: listener.port }, '/v1/chat/completions', { body: { messages: turns } });
  assert.is(answer.status, 200, answer.text);
  const [, second] = listener.backend.requests.at(-1)!.messages;
  assert.equal(second, { role: 'assistant', content: '', reasoning: 'A city is named.' });
});

test.run();
