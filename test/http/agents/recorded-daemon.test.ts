/**
 * The recorded requests of coding agents, to a real daemon with a local model: both turns are answered, and the second
 * turn of a conversation of 20,000 tokens is found in the prefix cache, whatever the agent changes between turns.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { makeHome, type Home } from '../../support/home.ts';
import { svc } from '../../support/svc.ts';
import { modelWithTemplate } from '../../support/template-model.ts';
import { recording, textOf, type Body } from './recording.ts';

const LEAST_CACHED = 0.95;
const LEAST_TOKENS = 20_000;
/** Characters of the user's prompt, which make a conversation of about 20,000 tokens. */
const PROMPT_CHARACTERS = 52_000;

/** Strict: it refuses system messages after the first. */
const TEMPLATE = new URL(`../../../build/llama.cpp/models/templates/Qwen3.5-4B.jinja`, import.meta.url);

let home: Home;
let daemon: DaemonProcess;
let base: string;

test.before(async () => {
  home = await makeHome();
  const file = join(home.dir, 'long.gguf');
  writeFileSync(file, await modelWithTemplate(readFileSync(TEMPLATE, 'utf8'), 'tiny-long'));
  const { code, stderr } = await svc(['model', 'add', file, '--name', 'tiny'], { home });
  assert.is(code, 0, stderr);
  daemon = await spawnDaemon(home).settled();
  base = `http://${String((await daemon.client.status()).http)}`;
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

/** Sends a request as the agent does; returns the data of all events. */
async function send(path: string, headers: Readonly<Record<string, string>>, body: Body): Promise<Body[]> {
  const response = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { ...headers, authorization: 'Bearer none' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice('data: '.length)) as Body);
}

/** Everything that Claude Code changes from one prompt or start to the next. */
function otherClaude(text: string): string {
  return text.replace(/cc_version=[^;]*;/, 'cc_version=2.1.331.0fe; cch=1b2c3;').replace(/\bid-(\d+)/g, 'another-$1');
}

test('Claude Code', async () => {
  const first = recording('claude-code');
  const second = recording('claude-code', otherClaude);
  const ask = async ({ path, headers }: typeof first, body: Body): Promise<Body> => {
    body['messages'][0].content.at(-1).text = textOf(PROMPT_CHARACTERS);
    const events = await send(path, headers, { ...body, max_tokens: 4 });
    assert.is(events.at(-1)?.['type'], 'message_stop');
    const start = events.find(({ type }) => type === 'message_start')?.['message'].usage;
    const delta = events.find(({ type }) => type === 'message_delta')?.['usage'];
    return { ...start, ...delta };
  };
  assert.is.not(first.turns[0]['system'][0].text, second.turns[1]['system'][0].text);
  await ask(first, first.turns[0]);
  const usage = await ask(second, second.turns[1]);
  const cached: number = usage['cache_read_input_tokens'];
  const total = Number(usage['input_tokens']) + cached;
  assert.ok(total >= LEAST_TOKENS, String(total));
  assert.ok(cached >= LEAST_CACHED * total, JSON.stringify(usage));
});

test('Codex', async () => {
  const first = recording('codex');
  const second = recording('codex', (text) => text.replace(/\bid-(\d+)/g, 'another-$1'));
  const ask = async ({ path, headers }: typeof first, body: Body): Promise<Body> => {
    body['input'][3].content[0].text = textOf(PROMPT_CHARACTERS);
    const events = await send(path, headers, { ...body, max_output_tokens: 4 });
    const last = events.at(-1);
    assert.ok(['response.completed', 'response.incomplete'].includes(last?.['type']), JSON.stringify(last));
    return last?.['response'].usage;
  };
  await ask(first, first.turns[0]);
  const usage = await ask(second, second.turns[1]);
  const { input_tokens: total, input_tokens_details: details } = usage;
  assert.ok(total >= LEAST_TOKENS, String(total));
  assert.ok(details.cached_tokens >= LEAST_CACHED * total, JSON.stringify(usage));
});

test.run();
