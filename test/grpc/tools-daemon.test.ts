/** A whole tool loop over gRPC, on a local model with random weights; and one that reasons. */
import { status } from '@grpc/grpc-js';
import Ajv from 'ajv';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ToolCall } from '../../src/protocol/generate.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { connectTo, failureOf, type TestClient } from './scripted.ts';

let home: Home;
let daemon: DaemonProcess;
let client: TestClient;

test.before(async () => {
  home = await makeHome();
  for (const [name, file] of [
    ['caller', 'tiny-qwen2'],
    ['thinker', 'tiny-thinker'],
  ] as const)
    assertExit(await svc(['model', 'add', modelPath(file), '--name', name], { home }), 0);
  daemon = await spawnDaemon(home).settled();
  client = connectTo((await daemon.client.status()).grpc ?? '');
});
test.after(async () => {
  client.close();
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

/** Every value is bounded, so that random weights come to an end. */
const SCHEMA = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['city', 'days'],
  additionalProperties: false,
};
const validate = new Ajv().compile(SCHEMA);
const parameters = JSON.stringify(SCHEMA);
const QUESTION = { role: 'user', content: 'Will it rain?' };
const ASK = {
  model: 'caller',
  messages: [QUESTION],
  tools: [
    { name: 'forecast', description: 'Forecasts the weather', parameters, strict: true },
    { name: 'history', description: 'Tells how the weather was', parameters },
  ],
  sampling: { seed: 1 },
  max_tokens: 200,
};

interface Answer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  readonly reason: string;
  readonly inputTokens: number;
}

async function answerTo(request: object): Promise<Answer> {
  let [text, reasoning] = ['', ''];
  const calls: ToolCall[] = [];
  let finish = { reason: '', usage: { input_tokens: 0 } };
  for await (const event of client.stream('Inference/Generate', request)) {
    if (event.event === 'text') text += String(event.text.text);
    if (event.event === 'reasoning') reasoning += String(event.reasoning.text);
    if (event.event === 'finish') finish = event.finish;
    if (event.event !== 'tool_call') continue;
    const { index, id, name, arguments: part } = event.tool_call;
    const begun = calls[index] ?? { id, name, arguments: '' };
    calls[index] = { ...begun, arguments: begun.arguments + String(part) };
  }
  return { text, reasoning, calls, reason: finish.reason, inputTokens: finish.usage.input_tokens };
}

test('a call, its result, and the answer', async () => {
  const first = await answerTo({ ...ASK, tool_choice: 'history', parallel_tool_calls: false });
  assert.equal([first.reason, first.text, first.calls.length], ['tool_calls', '', 1]);
  const [call] = first.calls;
  assert.ok(call !== undefined);
  assert.is(call.name, 'history');
  assert.is(validate(JSON.parse(call.arguments)), true, call.arguments);

  const second = await answerTo({
    ...ASK,
    messages: [
      QUESTION,
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: call.id, content: 'It rained.' },
    ],
    tool_choice: 'none',
    max_tokens: 16,
  });
  assert.equal(second.calls, []);
  assert.ok(second.text.length > 0);
  assert.ok(second.inputTokens > first.inputTokens);
});

test('some call must happen', async () => {
  const { reason, calls } = await answerTo({ ...ASK, tool_choice: 'required', parallel_tool_calls: false });
  assert.equal([reason, calls.length], ['tool_calls', 1]);
  assert.is(validate(JSON.parse(calls[0]?.arguments ?? '')), true);
});

test('a choice that no tool has, and a result without a call, are refused by name', async () => {
  const paramOf = async (given: object): Promise<string | undefined> => {
    const failure = await failureOf(client.stream('Inference/Generate', { ...ASK, ...given }));
    assert.is(failure.status, status.INVALID_ARGUMENT);
    return failure.metadata['param'];
  };
  assert.is(await paramOf({ tool_choice: 'nothing' }), 'tool_choice');
  for (const tool_choice of ['required', 'forecast'])
    assert.is(await paramOf({ tools: [], tool_choice }), 'tool_choice');
  const result = { role: 'tool', tool_call_id: 'x', content: 'y' };
  assert.is(await paramOf({ messages: [QUESTION, result] }), 'messages[1].tool_call_id');
});

test('reasoning comes apart from the text, up to its budget, or not at all', async () => {
  const asked = { model: 'thinker', messages: [QUESTION], sampling: { seed: 1 }, max_tokens: 40 };
  const { reasoning, text } = await answerTo({ ...asked, reasoning_budget_tokens: 8 });
  assert.ok(reasoning.length > 0 && text.length > 0);
  assert.not.match(reasoning + text, /<\/?think>/);
  for (const off of [{ reasoning_effort: 'none' }, { chat_template_kwargs: '{"enable_thinking": false}' }]) {
    const answer = await answerTo({ ...asked, ...off });
    assert.is(answer.reasoning, '');
    assert.ok(answer.text.length > 0);
  }
});

test.run();
