/** OpenAI's client, version 7: Chat Completions, Responses, embeddings. */
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as svc from './daemon.js';

const at = (apiKey) => new OpenAI({ baseURL: `${svc.URL}/v1`, apiKey, maxRetries: 0 });
const client = at(svc.KEY);
const messages = [{ role: 'user', content: svc.QUESTION }];
const FEW = { model: 'plain', messages, max_completion_tokens: 30, seed: 7 };
const INPUT = { model: 'plain', input: svc.QUESTION, max_output_tokens: 30, seed: 7 };
const TOOL = { name: 'forecast', description: 'Forecasts the weather', parameters: svc.SCHEMA, strict: true };
const CALLING = { model: 'caller', parallel_tool_calls: false, seed: 5 };

test('chat: text, whole, iterated and with the helper', async () => {
  const whole = await client.chat.completions.create(FEW);
  const text = whole.choices[0].message.content;
  assert.ok(text.length > 0);
  let joined = '';
  for await (const { choices } of await client.chat.completions.create({ ...FEW, stream: true }))
    joined += choices[0]?.delta.content ?? '';
  assert.is(joined, text);
  const final = await client.chat.completions.stream(FEW).finalChatCompletion();
  assert.is(final.choices[0].message.content, text);
  assert.is(final.choices[0].finish_reason, 'length');
});

test('chat: a forced call, its result, the answer; streamed alike', async () => {
  const ask = { ...CALLING, messages, max_completion_tokens: 200, tools: [{ type: 'function', function: TOOL }] };
  const forced = { ...ask, tool_choice: { type: 'function', function: { name: 'forecast' } } };
  const [{ message }] = (await client.chat.completions.create(forced)).choices;
  const [call] = message.tool_calls;
  svc.assertFits(call.function.arguments);
  const streamed = await client.chat.completions.stream(forced).finalChatCompletion();
  assert.is(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const result = { role: 'tool', tool_call_id: call.id, content: 'It rained.' };
  const second = await client.chat.completions.create({
    ...ask,
    messages: [...messages, message, result],
    tool_choice: 'none',
    max_completion_tokens: 16,
  });
  assert.ok(second.choices[0].message.content.length > 0);
});

test('chat: the helper runs a tool by itself', async () => {
  const called = [];
  const runner = client.chat.completions.runTools(
    {
      ...CALLING,
      messages,
      max_completion_tokens: 200,
      tool_choice: { type: 'function', function: { name: 'forecast' } },
      tools: [
        {
          type: 'function',
          function: { ...TOOL, parse: JSON.parse, function: (input) => called.push(input) && 'It rained.' },
        },
      ],
    },
    { maxChatCompletions: 1 },
  );
  await runner.done();
  svc.assertFits(called[0]);
});

test('chat and responses: structured output, parsed by the client', async () => {
  const json_schema = { name: 'answer', schema: svc.SCHEMA, strict: true };
  const parsed = await client.chat.completions.parse({
    ...FEW,
    max_completion_tokens: 200,
    response_format: { type: 'json_schema', json_schema },
  });
  svc.assertFits(parsed.choices[0].message.parsed);
  const format = { type: 'json_schema', ...json_schema };
  const structured = { ...INPUT, max_output_tokens: 200, text: { format } };
  const response = await client.responses.parse(structured);
  svc.assertFits(response.output_parsed);
  const streamed = await client.responses.stream(structured).finalResponse();
  assert.equal(JSON.parse(streamed.output_text), response.output_parsed);
});

test('completions: text, whole and iterated', async () => {
  const ask = { model: 'plain', prompt: svc.QUESTION, max_tokens: 30, seed: 7 };
  const [{ text, finish_reason }] = (await client.completions.create(ask)).choices;
  assert.ok(text.length > 0);
  assert.is(finish_reason, 'length');
  let joined = '';
  for await (const { choices } of await client.completions.create({ ...ask, stream: true }))
    joined += choices[0]?.text ?? '';
  assert.is(joined, text);
});

test('models, listed and one', async () => {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  for (const id of ['plain', 'caller', 'vectors']) assert.ok(ids.includes(id), id);
  assert.is((await client.models.retrieve('plain')).id, 'plain');
});

test('responses: text, whole, iterated and with the helper', async () => {
  const whole = await client.responses.create(INPUT);
  assert.ok(whole.output_text.length > 0);
  let joined = '';
  for await (const event of await client.responses.create({ ...INPUT, stream: true }))
    if (event.type === 'response.output_text.delta') joined += event.delta;
  assert.is(joined, whole.output_text);
  const final = await client.responses.stream(INPUT).finalResponse();
  assert.is(final.output_text, whole.output_text);
});

test('responses: a forced call, its result, the answer; streamed alike', async () => {
  const ask = { ...CALLING, max_output_tokens: 200, tools: [{ type: 'function', ...TOOL }] };
  const forced = { ...ask, input: svc.QUESTION, tool_choice: 'required' };
  const first = await client.responses.create(forced);
  const [call] = first.output.filter(({ type }) => type === 'function_call');
  svc.assertFits(call.arguments);
  const streamed = await client.responses.stream(forced).finalResponse();
  assert.equal(
    streamed.output.map(({ type, arguments: input }) => [type, input]),
    first.output.map(({ type, arguments: input }) => [type, input]),
  );
  const second = await client.responses.create({
    ...ask,
    previous_response_id: first.id,
    input: [{ type: 'function_call_output', call_id: call.call_id, output: 'It rained.' }],
    tool_choice: 'none',
    max_output_tokens: 16,
  });
  assert.ok(second.output_text.length > 0);
});

test('reasoning comes apart in both, whole and streamed', async () => {
  const budget = { model: 'thinker', seed: 1, reasoning_budget_tokens: 8 };
  const chat = await client.chat.completions.create({ ...budget, messages, max_completion_tokens: 40 });
  assert.ok(chat.choices[0].message.reasoning_content.length > 0 && chat.choices[0].message.content.length > 0);
  const response = await client.responses.create({ ...budget, input: svc.QUESTION, max_output_tokens: 40 });
  assert.is(response.output[0].type, 'reasoning');
  let reasoning = '';
  const chunks = await client.chat.completions.create({ ...budget, messages, max_completion_tokens: 40, stream: true });
  for await (const { choices } of chunks) reasoning += choices[0]?.delta.reasoning_content ?? '';
  assert.is(reasoning, chat.choices[0].message.reasoning_content);
  const streamed = client.responses.stream({ ...budget, input: svc.QUESTION, max_output_tokens: 40 });
  assert.equal((await streamed.finalResponse()).output[0].content, response.output[0].content);
});

test('a picture is seen', async () => {
  const image = { type: 'image_url', image_url: { url: svc.PICTURE_URL } };
  const content = [{ type: 'text', text: svc.QUESTION }, image];
  const blind = await client.chat.completions.create({ ...FEW, model: 'sees' });
  const seen = await client.chat.completions.create({ ...FEW, model: 'sees', messages: [{ role: 'user', content }] });
  assert.ok(seen.usage.prompt_tokens > blind.usage.prompt_tokens + 3);
  const parts = [
    { type: 'input_text', text: svc.QUESTION },
    { type: 'input_image', image_url: svc.PICTURE_URL, detail: 'auto' },
  ];
  const response = await client.responses.create({
    ...INPUT,
    model: 'sees',
    input: [{ role: 'user', content: parts }],
  });
  assert.is(response.usage.input_tokens, seen.usage.prompt_tokens);
});

test('embeddings', async () => {
  const { data } = await client.embeddings.create({ model: 'vectors', input: ['rain', 'sun'] });
  assert.equal(
    data.map(({ embedding }) => embedding.length),
    [64, 64],
  );
  assert.ok(Math.abs(Math.hypot(...data[0].embedding) - 1) < 1e-4);
});

test('an abort stops the generation', async () => {
  const endless = { model: 'plain', stream: true, logit_bias: { 100: 100 } };
  await svc.assertAbortStops(async (signal) =>
    svc.begun(await client.chat.completions.create({ ...endless, messages }, { signal })),
  );
  await svc.assertAbortStops(async (signal) =>
    svc.begun(await client.responses.create({ ...endless, input: svc.QUESTION }, { signal })),
  );
});

test('errors are classes of the client with status and param', async () => {
  const long = [{ role: 'user', content: svc.LONG }];
  for (const stream of [false, true]) {
    const refused = (params) => svc.failureOf(client.chat.completions.create({ ...FEW, stream, ...params }));
    const unknown = await refused({ model: 'huge' });
    assert.instance(unknown, NotFoundError);
    assert.equal([unknown.status, unknown.code], [404, 'model_not_found']);
    const wrong = await refused({ temperature: 'hot' });
    assert.instance(wrong, BadRequestError);
    assert.equal([wrong.status, wrong.param], [400, 'temperature']);
    assert.equal(await refused({ messages: long }).then(({ code }) => code), 'context_length_exceeded');
    const response = await svc.failureOf(client.responses.create({ ...INPUT, stream, max_output_tokens: 'x' }));
    assert.equal([response.status, response.param], [400, 'max_output_tokens']);
  }
  const denied = await svc.failureOf(at('wrong').chat.completions.create(FEW));
  assert.instance(denied, AuthenticationError);
});

test.run();
