/** What svc has answered, it takes back as history: every API reads its own answers, also those that were cut off. */
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
}

const APIS: readonly Api[] = [
  {
    path: '/v1/chat/completions',
    field: 'messages',
    more: { logprobs: true },
    kept: ({ choices }) => choices.map(({ message }: { message: object }) => message),
  },
  { path: '/v1/responses', field: 'input', kept: ({ output }) => output },
  {
    path: '/v1/messages',
    field: 'messages',
    more: { max_tokens: 9 },
    kept: ({ role, content }) => [{ role, content }],
  },
  { path: '/api/chat', field: 'messages', more: { stream: false }, kept: ({ message }) => [message] },
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
