/** The Responses API of a real daemon with tiny models, with the official client. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { endServing, serve } from '../../support/serving.ts';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import type { Home } from '../../support/home.ts';
import { openAiClient } from '../../support/openai.ts';
import { failure } from '../api-failure.ts';
import { checkEvents } from './event-order.ts';

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

test.before(async () => {
  ({ home, daemon, client } = await serve({ caller: 'tiny-qwen2', plain: 'tiny-llama', thinker: 'tiny-thinker' }));
});
test.after(() => endServing({ home, daemon }));

type Params = OpenAI.Responses.ResponseCreateParamsNonStreaming;
/** The type of the client has no `seed`; svc has. */
const seeded = (seed: number): object => ({ seed });
const FEW: Params = { model: 'plain', input: 'Tell me about llamas.', max_output_tokens: 12, ...seeded(7) };

const SCHEMA = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['city', 'days'],
  additionalProperties: false,
};
const FORECAST: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'forecast',
  description: 'Forecasts the weather',
  parameters: SCHEMA,
  strict: true,
};
const CALLING: Params = {
  model: 'caller',
  input: [{ role: 'user', content: 'Will it rain?' }],
  tools: [FORECAST],
  tool_choice: 'required',
  parallel_tool_calls: false,
  max_output_tokens: 200,
};

async function streamed(params: Params): Promise<{ types: string[]; response: any }> {
  const events: object[] = [];
  for await (const event of await client.responses.create({ ...params, stream: true })) events.push(event);
  return checkEvents(events);
}

function isForecast(json: string): boolean {
  const { city, days } = JSON.parse(json) as { city: string; days: number };
  return ['Paris', 'Oslo'].includes(city) && days >= 1 && days <= 99;
}

test('a text is the same whole, streamed, and by the helper of the client', async () => {
  const whole = await client.responses.create(FEW);
  assert.ok(whole.output_text.length > 0);
  assert.is(whole.status, 'incomplete');
  assert.equal(whole.incomplete_details, { reason: 'max_output_tokens' });
  assert.is(whole.usage?.output_tokens, 12);
  const { response, types } = await streamed(FEW);
  assert.is(types.at(-1), 'response.incomplete');
  assert.is(response.output[0].content[0].text, whole.output_text);
  const final = await client.responses.stream({ ...FEW, stream: true }).finalResponse();
  assert.is(final.output_text, whole.output_text);
});

test('input tokens are counted as they are in a response', async () => {
  const fields = { model: 'caller', input: 'Will it rain?', instructions: 'Be brief.', tools: [FORECAST] };
  const { input_tokens } = await client.responses.inputTokens.count(fields);
  const { id, usage } = await client.responses.create({ ...fields, max_output_tokens: 2 });
  assert.is(input_tokens, usage?.input_tokens);
  const next = { model: 'caller', input: 'And then?', previous_response_id: id };
  const counted = await client.responses.inputTokens.count(next);
  const answered = await client.responses.create({ ...next, max_output_tokens: 2 });
  assert.is(counted.input_tokens, answered.usage?.input_tokens);
});

test('log probabilities of the tokens', async () => {
  const response = await client.responses.create({
    ...FEW,
    include: ['message.output_text.logprobs'],
    top_logprobs: 2,
  });
  const [item] = response.output;
  assert.ok(item?.type === 'message' && item.content[0]?.type === 'output_text');
  const { logprobs = [], text } = item.content[0];
  assert.ok(logprobs.length > 0 && logprobs.every(({ top_logprobs }) => top_logprobs.length === 2));
  assert.is(Buffer.from(logprobs.flatMap(({ bytes }) => bytes)).toString(), text);
});

test('a call that must happen, its output by previous_response_id, and by items', async () => {
  const first = await client.responses.create({ ...CALLING, ...seeded(1) });
  const [call, ...others] = first.output;
  assert.is(others.length, 0);
  assert.ok(call?.type === 'function_call' && isForecast(call.arguments), JSON.stringify(call));
  assert.equal([call.name, call.status, first.status], ['forecast', 'completed', 'completed']);
  const output = { type: 'function_call_output' as const, call_id: call.call_id, output: 'Rain.' };
  const rest: Params = { ...CALLING, tool_choice: 'none', max_output_tokens: 8, ...seeded(2) };
  const stored = await client.responses.create({ ...rest, input: [output], previous_response_id: first.id });
  assert.ok(stored.output_text.length > 0);
  const sent = await client.responses.create({
    ...rest,
    input: [{ role: 'user', content: 'Will it rain?' }, call, output],
  });
  assert.is(sent.output_text, stored.output_text);
  assert.is(sent.usage?.input_tokens, stored.usage?.input_tokens);
});

test('a call in a stream, by name', async () => {
  const tool_choice = { type: 'function' as const, name: 'forecast' };
  const { types, response } = await streamed({ ...CALLING, tool_choice, ...seeded(3) });
  assert.ok(types.includes('response.function_call_arguments.delta'));
  assert.ok(isForecast(response.output[0].arguments));
});

test('what Codex sends: tools of other types beside functions in namespaces', async () => {
  const { tools } = CALLING;
  const codex = [
    { type: 'web_search' as const },
    { type: 'namespace' as const, name: 'mcp__weather__', description: 'Weather', tools: tools as any },
  ];
  const response = await client.responses.create({
    ...CALLING,
    tools: codex,
    store: false,
    include: ['reasoning.encrypted_content'],
  });
  const [call] = response.output;
  assert.ok(call?.type === 'function_call');
  assert.equal([call.name, call.namespace], ['forecast', 'mcp__weather__']);
  assert.equal((response as { ignored_tools?: unknown }).ignored_tools, ['web_search']);
});

test('reasoning comes as text, or as a summary, before the answer', async () => {
  const ask = { model: 'thinker', input: 'How many?', max_output_tokens: 40, reasoning_budget_tokens: 8, ...seeded(1) };
  const { types, response } = await streamed(ask);
  assert.ok(types.includes('response.reasoning_text.delta'));
  const [thought, message] = response.output;
  assert.equal([thought.type, message.type], ['reasoning', 'message']);
  assert.ok(thought.content[0].text.length > 0 && message.content[0].text.length > 0);
  const summary = await client.responses.create({ ...ask, reasoning: { summary: 'auto' } });
  assert.ok(summary.output[0]?.type === 'reasoning');
  assert.is(summary.output[0].summary[0]?.text, thought.content[0].text);
  const { output } = await client.responses.create({ ...ask, reasoning: { effort: 'none' } });
  assert.equal(
    output.map(({ type }) => type),
    ['message'],
  );
});

test('a JSON schema is enforced', async () => {
  const format = { type: 'json_schema' as const, name: 'forecast', schema: SCHEMA };
  const response = await client.responses.create({ ...FEW, max_output_tokens: 200, text: { format } });
  assert.ok(isForecast(response.output_text), response.output_text);
  const schema = { type: 'object', not: {} };
  const { param } = await failure(client.responses.create({ ...FEW, text: { format: { ...format, schema } } }));
  assert.match(String(param), /^text\.format\.schema/);
});

test('a conversation goes on, and is in files of the owner alone, also after the daemon was killed', async () => {
  const first = await client.responses.create(FEW);
  const second = await client.responses.create({ ...FEW, input: 'And alpacas?', previous_response_id: first.id });
  assert.ok(Number(second.usage?.input_tokens) > Number(first.usage?.input_tokens));
  const folder = join(home.dir, 'state', 'responses');
  const file = join(folder, `${second.id}.json`);
  assert.ok(readFileSync(file, 'utf8').includes('And alpacas?'));
  if (process.platform !== 'win32') assert.is(statSync(file).mode & 0o777, 0o600);

  daemon.kill('SIGKILL');
  await daemon.exit;
  daemon = await spawnDaemon(home).settled();
  client = await openAiClient(daemon);
  assert.equal((await client.responses.retrieve(second.id)).output, second.output);
  const third = await client.responses.create({ ...FEW, input: 'So?', previous_response_id: second.id });
  assert.is(third.previous_response_id, second.id);
  const before = readdirSync(folder).length;
  await client.responses.delete(third.id);
  assert.is(readdirSync(folder).length, before - 1);
  assert.is((await failure(client.responses.retrieve(third.id))).status, 404);
});

test('what a model cannot do is refused in the words of the API', async () => {
  const cases: readonly (readonly [object, number, string])[] = [
    [{ model: 'none' }, 404, 'model'],
    [{ reasoning: { effort: 'high' } }, 400, 'reasoning.effort'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,aGVsbG8=' }] }] },
      400,
      'input[0].content[0]',
    ],
    [{ previous_response_id: `resp_${'0'.repeat(32)}` }, 400, 'previous_response_id'],
  ];
  for (const [fields, status, param] of cases) {
    const error = await failure(client.responses.create({ ...FEW, ...fields }));
    assert.equal([error.status, error.param], [status, param], JSON.stringify(fields));
  }
});

test.run();
