/** Input longer than the context: refused, or truncated on request and reported, over HTTP, gRPC and the CLI. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import { connectTo, type TestClient } from '../grpc/scripted.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

const CONTEXT = 256;

let home: Home;
let daemon: DaemonProcess;
let base: string;
let grpc: TestClient;

test.before(async () => {
  home = await makeHome();
  for (const [file, name] of [
    ['tiny-qwen2', 'random'],
    ['tiny-bert', 'bert'],
  ] as const)
    await svc(['model', 'add', modelPath(file), '--name', name], { home });
  await svc(['config', 'set', 'engine.context_length', String(CONTEXT)], { home });
  daemon = await spawnDaemon(home).settled();
  const { http, grpc: address } = await daemon.client.status();
  base = `http://${String(http)}`.replace('http://http://', 'http://');
  grpc = connectTo(address ?? '');
});
test.after(async () => {
  grpc.close();
  daemon.kill('SIGTERM');
  await daemon.exit;
  await home.remove();
});

const river = 'the river runs under the old bridge '.repeat(60);
const chat = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: river },
  { role: 'assistant', content: 'It does.' },
  { role: 'user', content: 'And the boats?' },
];
const asked = { model: 'random', messages: chat, max_tokens: 16, temperature: 0 };

interface Answer {
  readonly truncated_tokens?: number;
  readonly usage?: { readonly prompt_tokens: number };
  readonly error?: { readonly code: string; readonly message: string; readonly hint?: string; readonly param?: string };
}

async function post(path: string, body: object): Promise<{ status: number; text: string; json: Answer }> {
  const response = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, text, json: (text.startsWith('{') ? JSON.parse(text) : {}) as Answer };
}

test('a chat that is too long is refused; the error has both lengths and a hint', async () => {
  const { status, json } = await post('/v1/chat/completions', asked);
  assert.is(status, 400);
  assert.is(json.error?.code, 'context_length_exceeded');
  assert.match(json.error?.message ?? '', /256 tokens.* \d{3},/);
  assert.match(json.error?.hint ?? '', /"truncate": true/);
});

test('with truncate the oldest turns are dropped, and the answer reports how many tokens', async () => {
  const whole = await post('/v1/chat/completions', { ...asked, truncate: true });
  assert.is(whole.status, 200, whole.text);
  const gone = whole.json.truncated_tokens ?? 0;
  assert.ok(gone > 300, `${gone} tokens`);
  assert.ok((whole.json.usage?.prompt_tokens ?? 0) <= CONTEXT - 16);

  const streamed = await post('/v1/chat/completions', { ...asked, truncate: true, stream: true });
  const told = streamed.text.split('\n').filter((line) => line.includes('"truncated_tokens"'));
  assert.is(told.length, 1);
  assert.match(told[0] ?? '', new RegExp(`"finish_reason":"\\w+".*"truncated_tokens":${gone}`));
});

test('if everything fits, 0 is reported with truncate, and nothing without', async () => {
  const short = { ...asked, messages: chat.slice(-1) };
  assert.is((await post('/v1/chat/completions', { ...short, truncate: true })).json.truncated_tokens, 0);
  assert.is((await post('/v1/chat/completions', short)).json.truncated_tokens, undefined);
  const wrong = await post('/v1/chat/completions', { ...short, truncate: 'yes' });
  assert.equal([wrong.status, wrong.json.error?.param], [400, 'truncate']);
});

test('with truncate embedding inputs are cut at the end', async () => {
  const input = ['boats', `${river} ${river}`];
  const refused = await post('/v1/embeddings', { model: 'bert', input });
  assert.is(refused.status, 400);
  assert.match(refused.json.error?.hint ?? '', /"truncate": true/);
  const { status, json, text } = await post('/v1/embeddings', { model: 'bert', input, truncate: true });
  assert.is(status, 200, text);
  assert.ok((json.truncated_tokens ?? 0) > 100, text.slice(0, 200));
  assert.is((await post('/v1/embeddings', { model: 'bert', input: 'boats', truncate: true })).json.truncated_tokens, 0);
});

test('gRPC has the same field and reports the same', async () => {
  const request = { model: 'random', messages: chat, max_tokens: 16, truncate: true };
  let truncated = 0;
  for await (const event of grpc.stream('Inference/Generate', request)) {
    truncated = (event as { finish?: { usage: { truncated_tokens: number } } }).finish?.usage.truncated_tokens ?? 0;
  }
  assert.ok(truncated > 300);
});

test('svc run reports on standard error what was truncated', async () => {
  const args = ['run', '-m', 'random', '--max-tokens', '8', '--temperature', '0'];
  const refused = await svc([...args, 'Summarise this', '-'], { home, input: river });
  assertExit(refused, 65);
  assert.match(refused.stderr, /svc run --truncate/);
  const cut = await svc([...args, '--truncate', 'Summarise this', '-'], { home, input: river });
  assertExit(cut, 0);
  assert.match(cut.stderr, /^svc: the prompt did not fit in the model's context: \d+ tokens were dropped$/m);
  const told = await svc([...args, '--truncate', '--json', 'Summarise this', '-'], { home, input: river });
  assert.ok(((JSON.parse(told.stdout) as GenerateResult).usage?.truncated_tokens ?? 0) > 100);
});

test('svc chat continues when the conversation exceeds the context', async () => {
  const input = `${river}\n${river}\nlast\n`;
  const args = ['chat', '-m', 'random', '--max-tokens', '8', '--temperature', '0'];
  assertExit(await svc(args, { home, input }), 65);
  const { code, stderr } = await svc([...args, '--truncate'], { home, input });
  assert.is(code, 0, stderr);
  assert.match(stderr, /tokens were dropped/);
});

test.run();
