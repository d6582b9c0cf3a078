/** A whole tool loop on a local model with random weights: HTTP with the official client, gRPC and `svc run`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import type { APIError } from 'openai';
import { parsedJson } from '../../src/protocol/foreign-text.ts';
import type { GenerateResult, ToolCall } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { endServing, serve } from '../support/serving.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import type { Home } from '../support/home.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import { failure } from './api-failure.ts';

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

/** Every value is bounded, so that random weights come to an end. */
const SCHEMA = {
  type: 'object',
  properties: {
    city: { enum: ['Paris', 'Oslo'] },
    days: { type: 'integer', minimum: 1, maximum: 99 },
  },
  required: ['city', 'days'],
  additionalProperties: false,
};
const tool = (name: string, more: object = {}): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name, description: 'Forecasts the weather', parameters: SCHEMA, ...more },
});
const CUSTOM: OpenAI.ChatCompletionCustomTool = { type: 'custom', custom: { name: 'patch' } };
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Will it rain?' }];
/** The type of the client calls `seed` deprecated; svc keeps it. */
const seeded = (seed: number): object => ({ seed });
const ASK = { model: 'caller', messages, tools: [tool('forecast'), tool('history')], max_completion_tokens: 200 };

test.before(async () => {
  ({ home, daemon, client } = await serve({ caller: 'tiny-qwen2', plain: 'tiny-llama', orderly: 'tiny-gemma' }));
});
test.after(() => endServing({ home, daemon }));

function isValid(json: string): boolean {
  const { city, days, ...others } = JSON.parse(json) as Record<string, unknown>;
  const isDays = Number.isInteger(days) && Number(days) >= 1 && Number(days) <= 99;
  return ['Paris', 'Oslo'].includes(String(city)) && isDays && Object.keys(others).length === 0;
}

test('a call, its result, and the answer', async () => {
  const first = await client.chat.completions.create({
    ...ASK,
    tool_choice: { type: 'function', function: { name: 'history' } },
    parallel_tool_calls: false,
    ...seeded(1),
  });
  const [choice] = first.choices;
  assert.ok(choice !== undefined);
  assert.is(choice.finish_reason, 'tool_calls');
  const [call, ...others] = choice.message.tool_calls ?? [];
  assert.is(others.length, 0);
  assert.ok(call?.type === 'function');
  assert.is(call.function.name, 'history');
  assert.ok(isValid(call.function.arguments), call.function.arguments);
  assert.match(call.id, /^[A-Za-z0-9]{9}$/);

  const second = await client.chat.completions.create({
    ...ASK,
    messages: [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: 'It rained.' }],
    tool_choice: 'none',
    max_completion_tokens: 16,
  });
  assert.is(second.choices[0]?.message.tool_calls, undefined);
  assert.ok((second.choices[0]?.message.content ?? '').length > 0);
  assert.ok((second.usage?.prompt_tokens ?? 0) > (first.usage?.prompt_tokens ?? 0));
});

test('streamed calls are the whole ones', async () => {
  const params = { ...ASK, tool_choice: 'required' as const, ...seeded(5), parallel_tool_calls: false };
  const whole = await client.chat.completions.create(params);
  const stream = client.chat.completions.stream(params);
  let pieces = 0;
  stream.on('tool_calls.function.arguments.delta', () => (pieces += 1));
  const streamed = await stream.finalChatCompletion();
  const callsOf = (completion: OpenAI.ChatCompletion): unknown =>
    completion.choices[0]?.message.tool_calls?.map((call) =>
      call.type === 'function' ? [call.function.name, call.function.arguments] : null,
    );
  assert.equal(callsOf(streamed), callsOf(whole));
  assert.is(streamed.choices[0]?.finish_reason, 'tool_calls');
  // One piece on a fast machine: text of short steps is delivered together.
  assert.ok(pieces > 0);
});

test('a call is forced after a finished conversation', async () => {
  const said = { role: 'assistant', content: 'It rained.' } as const;
  const { choices } = await client.chat.completions.create({
    ...ASK,
    messages: [...messages, said],
    tool_choice: 'required',
    parallel_tool_calls: false,
    ...seeded(5),
  });
  assert.is(choices[0]?.finish_reason, 'tool_calls');
});

test('a model may answer instead', async () => {
  const free = await client.chat.completions.create({ ...ASK, ...seeded(3), max_completion_tokens: 12 });
  assert.ok((free.choices[0]?.message.content ?? '').length > 0);
  const quiet = await client.chat.completions.create({ ...ASK, tool_choice: 'none', max_completion_tokens: 4 });
  assert.is(quiet.choices[0]?.finish_reason, 'length');
});

test('a model whose template knows no tools calls them, and gets the result, as text', async () => {
  const plain = { ...ASK, model: 'plain' };
  const forced = { ...plain, tool_choice: 'required', parallel_tool_calls: false } as const;
  const first = await client.chat.completions.create({ ...forced, ...seeded(1) });
  const [choice] = first.choices;
  assert.ok(choice !== undefined);
  assert.is(choice.finish_reason, 'tool_calls');
  const [call] = choice.message.tool_calls ?? [];
  assert.ok(call?.type === 'function' && isValid(call.function.arguments), JSON.stringify(call));
  const turns = [choice.message, { role: 'tool', tool_call_id: call.id, content: 'Rain.' } as const];
  const { prompt } = (await (
    await fetch(`${client.baseURL.replace('/v1', '')}/apply-template`, {
      method: 'POST',
      body: JSON.stringify({ ...plain, messages: [...messages, ...turns] }),
      headers: { 'content-type': 'application/json' },
    })
  ).json()) as { prompt: string };
  assert.match(prompt, /# Tools[^]*"name":"forecast"[^]*Will it rain\?[^]*<tool_call>[^]*<tool_response>\nRain\./);
  const second = await client.chat.completions.create({ ...plain, messages: [...messages, ...turns], ...seeded(2) });
  assert.is(second.choices[0]?.finish_reason, 'length');
});

test('tools of other types are passed over, and the answer lists them', async () => {
  const odd = { type: 'web_search' } as unknown as OpenAI.ChatCompletionTool;
  const tools = [CUSTOM, tool('forecast'), odd, tool('history')];
  const allowed_tools = { mode: 'required' as const, tools: [{ ...tool('history') }, { ...CUSTOM }] };
  const ask = { ...ASK, tools, parallel_tool_calls: false, ...seeded(1) };
  const tool_choice = { type: 'allowed_tools' as const, allowed_tools };
  const whole = await client.chat.completions.create({ ...ask, tool_choice });
  const [call] = whole.choices[0]?.message.tool_calls ?? [];
  assert.ok(call?.type === 'function' && call.function.name === 'history', JSON.stringify(whole));
  assert.equal((whole as { ignored_tools?: unknown }).ignored_tools, ['custom', 'web_search']);
  const lists: unknown[] = [];
  for await (const chunk of await client.chat.completions.create({ ...ask, tool_choice, n: 2, stream: true }))
    if (chunk.choices[0]?.finish_reason !== null) lists.push((chunk as { ignored_tools?: unknown }).ignored_tools);
  assert.equal(lists, [
    ['custom', 'web_search'],
    ['custom', 'web_search'],
  ]);

  const only = await client.chat.completions.create({ ...ask, tools: [CUSTOM], max_completion_tokens: 4 });
  assert.is(only.choices[0]?.message.tool_calls, undefined);
  assert.equal((only as { ignored_tools?: unknown }).ignored_tools, ['custom']);
  const unlisted = await client.chat.completions.create({ ...ASK, max_completion_tokens: 4 });
  assert.not('ignored_tools' in unlisted);
});

test('beside an output format a model answers in it or calls a tool, as it wants', async () => {
  const format = {
    type: 'json_schema' as const,
    json_schema: {
      name: 'report',
      strict: true,
      schema: {
        type: 'object',
        properties: { rain: { type: 'boolean' } },
        required: ['rain'],
        additionalProperties: false,
      },
    },
  };
  const asked = async (beginning: string, more: object = {}): Promise<OpenAI.ChatCompletionMessage> => {
    const body = { model: 'caller', content: beginning, parse_special: true };
    const { tokens } = await client.post<{ tokens: number[] }>(new URL('/tokenize', client.baseURL).href, { body });
    const answer = await client.chat.completions.parse({
      ...ASK,
      tools: [tool('forecast', { strict: true })],
      parallel_tool_calls: false,
      response_format: format,
      logit_bias: { [String(tokens[0])]: 100 },
      ...seeded(1),
      ...more,
    });
    assert.ok(answer.choices[0] !== undefined);
    return answer.choices[0].message;
  };
  const text = await asked('{');
  assert.equal(Object.keys(JSON.parse(text.content ?? '') as object), ['rain']);
  assert.is((text.tool_calls ?? []).length, 0);
  const calling = await asked('<tool_call>');
  assert.ok(!calling.content, calling.content ?? '');
  const [call] = calling.tool_calls ?? [];
  assert.ok(call?.type === 'function' && isValid(call.function.arguments), JSON.stringify(calling));
  // A call that must happen leaves no place for a content.
  const forced = await asked('{', { tool_choice: 'required' });
  assert.is(forced.tool_calls?.length, 1);
  const uncalled = await asked('<tool_call>', { tool_choice: 'none' });
  assert.equal(Object.keys(JSON.parse(uncalled.content ?? '') as object), ['rain']);
});

test('what cannot be enforced, or is no call, is refused by name', async () => {
  const paramOf = async (given: object): Promise<string> => {
    const { status, param } = await failure(
      client.chat.completions.create({ ...ASK, ...given } as OpenAI.ChatCompletionCreateParamsNonStreaming),
    );
    assert.is(status, 400);
    return String(param);
  };
  assert.is(await paramOf({ tool_choice: { type: 'function', function: { name: 'nothing' } } }), 'tool_choice');
  assert.is(await paramOf({ tool_choice: 'sometimes' }), 'tool_choice');
  assert.is(await paramOf({ tool_choice: 'required', tools: undefined }), 'tool_choice');
  assert.is(await paramOf({ tools: [CUSTOM], tool_choice: 'required' }), 'tool_choice');
  assert.is(await paramOf({ tools: [CUSTOM, tool('forecast')], tool_choice: CUSTOM }), 'tool_choice');
  const odd = { parameters: { type: 'object', not: {} } };
  const strict = { tools: [CUSTOM, tool('odd', { ...odd, strict: true })] };
  assert.is(await paramOf(strict), 'tools[1].parameters.not');
  assert.is(await paramOf({ tools: [tool('odd', { ...odd, strict: true })] }), 'tools[0].parameters.not');
  assert.is(await paramOf({ tools: [tool('odd', odd)], tool_choice: 'required' }), 'tools[0].parameters.not');
  assert.is(
    await paramOf({ messages: [...messages, { role: 'tool', tool_call_id: 'x', content: 'y' }] }),
    'messages[1].tool_call_id',
  );
  assert.is(await paramOf({ reasoning_effort: 'high', tools: undefined }), 'reasoning_effort');
  assert.is(await paramOf({ reasoning_budget_tokens: 8, tools: undefined }), 'reasoning_budget_tokens');
});

test('a call that was cut off is no obstacle in the history', async () => {
  const cut = await client.chat.completions.create({
    ...ASK,
    tool_choice: { type: 'function', function: { name: 'forecast' } },
    parallel_tool_calls: false,
    max_completion_tokens: 40,
    ...seeded(1),
  });
  const [choice] = cut.choices;
  const [call] = choice?.message.tool_calls ?? [];
  assert.is(choice?.finish_reason, 'length');
  assert.ok(choice !== undefined && call?.type === 'function', JSON.stringify(choice));
  assert.is(parsedJson(call.function.arguments), undefined, call.function.arguments);
  const next = await client.chat.completions.create({
    ...ASK,
    messages: [...messages, choice.message, { role: 'tool', tool_call_id: call.id, content: 'Not valid.' }],
    tool_choice: 'none',
    max_completion_tokens: 4,
  });
  assert.ok((next.usage?.completion_tokens ?? 0) > 0);
});

test('a schema that is too large is refused by name', async () => {
  const strict = async (parameters: object): Promise<APIError> =>
    await failure(client.chat.completions.create({ ...ASK, tools: [tool('large', { parameters, strict: true })] }));
  const long = await strict({ type: 'object', properties: { a: { const: 'x'.repeat(70_000) } } });
  assert.equal([long.status, long.param], [400, 'tools[0].parameters']);
});

test('a chat that an assistant begins, and calls of an earlier model, are rendered by a template that refuses them', async () => {
  const call = { id: 'c1', type: 'function' as const, function: { name: 'forecast', arguments: '{}' } };
  const chats: OpenAI.ChatCompletionMessageParam[][] = [
    [{ role: 'assistant', content: 'Hello!' }, ...messages],
    [...messages, { role: 'assistant', tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'Rain.' }],
  ];
  for (const turns of chats) {
    const ask = { model: 'orderly', messages: turns, max_completion_tokens: 4 };
    const { usage } = await client.chat.completions.create(ask);
    assert.ok((usage?.completion_tokens ?? 0) > 0);
    for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }))
      assert.is(chunk.object, 'chat.completion.chunk');
  }
});

test('several messages of one role are one turn for a template that refuses them', async () => {
  const ask = async (turns: OpenAI.ChatCompletionMessageParam[]): Promise<number | undefined> => {
    const request = { model: 'orderly', messages: turns, max_completion_tokens: 1 };
    return (await client.chat.completions.create(request)).usage?.prompt_tokens;
  };
  const loose = await ask([
    { role: 'user', content: 'one' },
    { role: 'user', content: [{ type: 'text', text: 'two' }] },
    { role: 'system', content: 'three' },
  ]);
  const strict = await ask([{ role: 'user', content: 'one\n\ntwo\n\n<system-reminder>\nthree\n</system-reminder>' }]);
  assert.is(loose, strict);
});

test('svc run offers the tools of a file and prints the calls', async () => {
  const file = join(home.dir, 'tools.json');
  writeFileSync(file, JSON.stringify([tool('forecast'), { name: 'history', parameters: SCHEMA }]));
  const run = (...args: string[]): Promise<SvcResult> =>
    svc(['run', '-m', 'caller', '--tools', file, '--max-tokens', '200', ...args, 'Will it rain?'], { home });
  const answer = JSON.parse((await run('--json', '--seed', '3')).stdout) as GenerateResult;
  assert.ok(answer.text.length > 0 || (answer.tool_calls ?? []).length > 0);

  writeFileSync(file, '[{"name": "a", "parameters": 1}]');
  const wrong = await run();
  assertExit(wrong, 65);
  assert.match(wrong.stderr, /tools\.json/);
});

test('a whole tool loop with svc run: calls, results, answer', async () => {
  const [tools, chat] = [join(home.dir, 'loop.json'), join(home.dir, 'chat.json')];
  writeFileSync(tools, JSON.stringify([tool('forecast'), tool('history')]));
  const run = (...args: string[]): Promise<SvcResult> =>
    svc(['run', '-m', 'caller', '--tools', tools, ...args], { home });

  const first = await run('--tool-choice', 'history', '--seed', '1', '--max-tokens', '1000', 'Will it rain?');
  assertExit(first, 0);
  const calls = first.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ToolCall);
  assert.ok(calls.length > 0);
  for (const call of calls) assert.ok(call.name === 'history' && isValid(call.arguments), JSON.stringify(call));

  const asked = { role: 'user', content: 'Will it rain?' };
  const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'It rained.' }));
  writeFileSync(chat, JSON.stringify([asked, { role: 'assistant', tool_calls: calls }, ...results]));
  const answered = async (...args: string[]): Promise<GenerateResult> =>
    JSON.parse(
      (await run('--messages', chat, '--tool-choice', 'none', '--max-tokens', '16', '--json', ...args)).stdout,
    ) as GenerateResult;
  const second = await answered();
  assert.ok(second.text.length > 0 && second.tool_calls === undefined);
  const third = await answered('And then?');
  assert.ok((third.usage?.input_tokens ?? 0) > (second.usage?.input_tokens ?? 0), 'the prompt comes after the file');

  writeFileSync(chat, JSON.stringify([asked, results[0]]));
  const { code, stderr } = await run('--messages', chat);
  assert.is(code, 2);
  assert.match(stderr, /messages\[1\]\.tool_call_id/);
  writeFileSync(chat, '[{"role": "judge", "content": "x"}]');
  const wrong = await run('--messages', chat);
  assertExit(wrong, 65);
  assert.match(wrong.stderr, /chat\.json: messages\[0\]\.role/);
});

test('a client over the control socket gets the events', async () => {
  const parts: ToolCall[] = [];
  for await (const event of daemon.client.generate({
    model: 'caller',
    messages: [{ role: 'user', content: 'Will it rain?' }],
    sampling: { seed: 9 },
    stop: [],
    tools: [{ name: 'forecast', parameters: SCHEMA }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    max_tokens: 200,
  })) {
    if (event.type === 'tool_call')
      parts.push({ id: event.id ?? '', name: event.name ?? '', arguments: event.arguments });
  }
  assert.is(parts[0]?.name, 'forecast');
  assert.ok(isValid(parts.map((part) => part.arguments).join('')));
});

test.run();
