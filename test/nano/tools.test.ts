/** The built-in model and tools: it answers as without them, and calls one only where a call must happen. */
import Ajv from 'ajv';
import type OpenAI from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { endServing, serve } from '../support/serving.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import type { Home } from '../support/home.ts';

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

test.before(async () => {
  ({ home, daemon, client } = await serve());
});
test.after(() => endServing({ home, daemon }));

const SCHEMAS: Readonly<Record<string, object>> = {
  weather: {
    type: 'object',
    properties: {
      city: { enum: ['Paris', 'Oslo'] },
      days: { type: 'integer', minimum: 1, maximum: 99 },
      note: { type: 'string', maxLength: 12 },
    },
    required: ['city', 'days', 'note'],
    additionalProperties: false,
  },
  lamp: {
    type: 'object',
    properties: { on: { type: 'boolean' } },
    required: ['on'],
    additionalProperties: false,
  },
};
const tools = Object.entries(SCHEMAS).map(([name, parameters]): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name, description: `Does something with the ${name}`, parameters: { ...parameters } },
}));
const question = (content: string): OpenAI.ChatCompletionMessageParam[] => [{ role: 'user', content }];

interface Answer {
  readonly message: OpenAI.ChatCompletionMessage;
  readonly reason: string;
  readonly promptTokens: number | undefined;
}

async function answerTo(
  messages: OpenAI.ChatCompletionMessageParam[],
  params: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {},
): Promise<Answer> {
  const { choices, usage } = await client.chat.completions.create({ model: 'builtin', messages, ...params });
  const [choice] = choices;
  assert.ok(choice !== undefined);
  return { message: choice.message, reason: choice.finish_reason, promptTokens: usage?.prompt_tokens };
}

test('where a call may happen, it answers as without tools', async () => {
  for (const text of ['how do I stop the daemon?', 'what is 12 + 31?', 'What is the weather in Paris?']) {
    const messages = question(text);
    const plain = await answerTo(messages);
    assert.is(plain.reason, 'stop');
    assert.equal(await answerTo(messages, { tools, tool_choice: 'auto' }), plain);
  }
});

test('where a call must happen, it makes one that is valid, and then answers', async () => {
  const messages = question('What is the weather in Paris?');
  for (const only of [undefined, 'weather', 'lamp']) {
    const tool_choice = only === undefined ? 'required' : ({ type: 'function', function: { name: only } } as const);
    const { reason, message } = await answerTo(messages, { tools, tool_choice, parallel_tool_calls: false });
    assert.is(reason, 'tool_calls');
    const [call, ...others] = message.tool_calls ?? [];
    assert.ok(call?.type === 'function' && others.length === 0);
    const { name, arguments: given } = call.function;
    if (only !== undefined) assert.is(name, only);
    assert.is(new Ajv().validate(SCHEMAS[name] ?? false, JSON.parse(given)), true, given);

    const result = { role: 'tool', tool_call_id: call.id, content: 'Rain, 18 °C' } as const;
    const after = await answerTo([...messages, message, result], { tools });
    assert.is(after.reason, 'stop');
    assert.ok((after.message.content ?? '').length > 0);
  }
});

test.run();
