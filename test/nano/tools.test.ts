/** The built-in model and tools: it answers as without them, and calls one only where a call must happen. */
import Ajv from 'ajv';
import OpenAI from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

test.before(async () => {
  home = await makeHome();
  daemon = await spawnDaemon(home).settled();
  const { http } = await daemon.client.status();
  client = new OpenAI({ baseURL: `http://${String(http)}/v1`, apiKey: 'none', maxRetries: 0 });
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

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
const tools = Object.entries(SCHEMAS).map(
  ([name, parameters]): OpenAI.ChatCompletionFunctionTool => ({
    type: 'function',
    function: { name, description: `Does something with the ${name}`, parameters: { ...parameters } },
  }),
);
const question = (content: string): OpenAI.ChatCompletionMessageParam[] => [{ role: 'user', content }];

async function answer(params: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>): Promise<OpenAI.ChatCompletion> {
  return await client.chat.completions.create({ model: 'builtin', messages: question('hello'), ...params });
}

test('where a call may happen, it answers as without tools', async () => {
  for (const text of ['how do I stop the daemon?', 'what is 12 + 31?', 'What is the weather in Paris?']) {
    const messages = question(text);
    const [plain, free] = [await answer({ messages }), await answer({ messages, tools, tool_choice: 'auto' })];
    assert.is(free.choices[0]?.message.tool_calls, undefined);
    assert.is(free.choices[0]?.finish_reason, 'stop');
    assert.is(free.choices[0].message.content, plain.choices[0]?.message.content);
    assert.is(free.usage?.prompt_tokens, plain.usage?.prompt_tokens);
  }
});

test('where a call must happen, it makes one that is valid, and then answers', async () => {
  for (const [tool_choice, names] of [
    ['required', Object.keys(SCHEMAS)],
    [{ type: 'function', function: { name: 'weather' } }, ['weather']],
    [{ type: 'function', function: { name: 'lamp' } }, ['lamp']],
  ] as const) {
    const messages = question('What is the weather in Paris?');
    const called = await answer({ messages, tools, tool_choice, parallel_tool_calls: false });
    const [choice] = called.choices;
    assert.is(choice?.finish_reason, 'tool_calls');
    const [call, ...others] = choice.message.tool_calls ?? [];
    assert.ok(call?.type === 'function' && others.length === 0);
    const { name, arguments: given } = call.function;
    assert.ok(names.includes(name), name);
    assert.is(new Ajv().validate(SCHEMAS[name] ?? false, JSON.parse(given)), true, given);

    const result = { role: 'tool', tool_call_id: call.id, content: 'Rain, 18 °C' } as const;
    const after = await answer({ messages: [...messages, choice.message, result], tools });
    assert.is(after.choices[0]?.finish_reason, 'stop');
    assert.ok((after.choices[0].message.content ?? '').length > 0);
  }
});

test.run();
