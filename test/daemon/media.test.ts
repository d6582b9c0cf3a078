/** Pictures and sounds for local models, end to end: the official client, the command line, projectors, refusals. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import OpenAI, { BadRequestError } from 'openai';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { failure } from '../http/api-failure.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { png, pngOf, projectorPath, wav } from '../support/media-files.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

type Part = OpenAI.ChatCompletionContentPart;

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

const warm = png(100, 60, (x, y) => [255, x * 2, y * 3]);
const cold = png(100, 60, (x, y) => [y * 2, x, 255 - x]);
const tone = wav(12_000, 440);

test.before(async () => {
  home = await makeHome();
  const llama = modelPath('tiny-llama');
  await run('model', 'add', llama, '--name', 'sees', '--projector', projectorPath('clip'));
  // Another file, because an engine is a file.
  copyFileSync(llama, join(home.dir, 'hears.gguf'));
  await run('model', 'add', join(home.dir, 'hears.gguf'), '--projector', projectorPath('whisper'));
  copyFileSync(llama, join(home.dir, 'blind.gguf'));
  await run('model', 'add', join(home.dir, 'blind.gguf'));
  await run('model', 'add', modelPath('tiny-gemma'), '--name', 'mismatched', '--projector', projectorPath('clip'));
  await start();
});
test.after(async () => {
  await stop();
  await home.remove();
});

async function start(): Promise<void> {
  daemon = await spawnDaemon(home).settled();
  client = new OpenAI({
    baseURL: `http://${String((await daemon.client.status()).http)}/v1`,
    apiKey: 'none',
    maxRetries: 0,
  });
}

async function stop(): Promise<void> {
  daemon.kill('SIGTERM');
  assert.is((await daemon.exit).code, 0);
}

async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await svc(args, { home });
  assert.is(code, 0, stderr);
  return stdout;
}

function picture(bytes: Buffer, type = 'image/png'): Part {
  return { type: 'image_url', image_url: { url: `data:${type};base64,${bytes.toString('base64')}` } };
}

function sound(bytes: Buffer, format: 'wav' | 'mp3' = 'wav'): Part {
  return { type: 'input_audio', input_audio: { data: bytes.toString('base64'), format } };
}

const text = (words: string): Part => ({ type: 'text', text: words });

function body(model: string, content: Part[]): OpenAI.ChatCompletionCreateParamsNonStreaming {
  return { model, messages: [{ role: 'user', content }], max_completion_tokens: 12, temperature: 0 };
}

async function answer(model: string, ...content: Part[]): Promise<{ text: string; usage: OpenAI.CompletionUsage }> {
  const { choices, usage } = await client.chat.completions.create(body(model, content));
  assert.ok(usage);
  return { text: choices[0]?.message.content ?? '', usage };
}

async function refusal(model: string, ...content: Part[]): Promise<{ param: string; message: string }> {
  const error = await failure(client.chat.completions.create(body(model, content)));
  assert.instance(error, BadRequestError, error.message);
  return { param: String(error.param), message: error.message };
}

test('a picture changes the answer, counts as tokens, and is found again by its bytes', async () => {
  const blind = await answer('sees', text('What is this?'));
  const first = await answer('sees', picture(warm), text('What is this?'));
  const other = await answer('sees', picture(cold), text('What is this?'));
  assert.is(new Set([blind.text, first.text, other.text]).size, 3);
  assert.is(first.usage.prompt_tokens, blind.usage.prompt_tokens + 16);
  const again = await answer('sees', picture(warm), text('What is this?'));
  assert.is(again.text, first.text);
  assert.is(again.usage.prompt_tokens_details?.cached_tokens, first.usage.prompt_tokens - 1);
});

test('several pictures, wherever they stand', async () => {
  const orders = [
    [picture(warm), picture(cold), text('Compare')],
    [picture(cold), picture(warm), text('Compare')],
    [picture(warm), text('Compare'), picture(cold)],
    [text('Compare'), picture(warm), picture(cold)],
  ];
  const answers = [];
  for (const order of orders) answers.push(await answer('sees', ...order));
  assert.is(new Set(answers.map((each) => each.text)).size, orders.length);
  assert.is(new Set(answers.slice(0, 2).map(({ usage }) => usage.prompt_tokens)).size, 1);
});

test('a sound, and sounds beside texts', async () => {
  const alone = await answer('hears', sound(tone), text('What do you hear?'));
  const texts = Array.from({ length: 4 }, (_, index) => answer('hears', text(`Number ${String(index)}`)));
  const beside = await answer('hears', sound(tone), text('What do you hear?'));
  await Promise.all(texts);
  assert.is(beside.text, alone.text);
  assert.not.equal((await answer('hears', sound(wav(12_000, 200)), text('What do you hear?'))).text, alone.text);
});

test('the record says what a load has found', async () => {
  const { models } = JSON.parse(await run('model', 'list', '--json')) as { models: ModelRecord[] };
  const found = new Map(models.map(({ id, capabilities }) => [id, capabilities]));
  assert.ok(found.get('sees')?.includes('vision'));
  assert.not.ok(found.get('sees')?.includes('audio'));
  assert.ok(found.get('hears')?.includes('audio'));
  assert.not.ok(found.get('hears')?.includes('vision'));
});

test('models without eyes or ears refuse by name', async () => {
  const blind = await refusal('blind', text('Look'), picture(warm));
  assert.is(blind.param, 'messages[0].content[1]');
  assert.match(blind.message, /cannot see pictures/);
  assert.match((await refusal('sees', sound(tone))).message, /cannot hear sounds/);
  assert.match((await refusal('hears', picture(warm))).message, /cannot see pictures/);
  const mismatched = await refusal('mismatched', picture(warm));
  assert.match(mismatched.message, /cannot see pictures: its projector cannot be used: mismatch/);
  assert.ok((await answer('mismatched', text('Hello'))).text);
});

test('damaged, oversized and disguised files are refused, and the engine stays', async () => {
  const pidOf = async (): Promise<unknown> =>
    (await daemon.client.models()).find(({ id }) => id === 'sees')?.loaded?.pid;
  const before = await answer('sees', picture(warm), text('What is this?'));
  const pid = await pidOf();
  const wrong: [Part, RegExp][] = [
    [picture(warm.subarray(0, 60)), /damaged or cut off/],
    [picture(Buffer.from('no picture at all')), /not a PNG, JPEG or GIF/],
    [picture(tone), /not a PNG, JPEG or GIF/],
    [picture(pngOf(65_000, 65_000, deflateSync(Buffer.alloc(1000)))), /a side of more than 16384 pixels/],
    [picture(pngOf(16_000, 16_000, deflateSync(Buffer.alloc(1000)))), /50000000 are allowed/],
    // 200 MB of zeros behind a header of one pixel.
    [picture(pngOf(1, 1, deflateSync(Buffer.alloc(200_000_000)))), /damaged or cut off/],
    [picture(Buffer.from('RIFF....WEBPVP8 '), 'image/webp'), /WebP/],
    [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }, /local models fetch nothing/],
  ];
  for (const [part, why] of wrong) {
    const { param, message } = await refusal('sees', text('Look'), part);
    assert.is(param, 'messages[0].content[1]');
    assert.match(message, why);
  }
  assert.match((await refusal('hears', sound(Buffer.from('OggS')))).message, /not a WAV, MP3 or FLAC/);
  assert.match((await refusal('hears', sound(wav(61_000, 1, 100)))).message, /longer than 600 seconds/);
  assert.match(
    (await refusal('sees', ...Array.from({ length: 65 }, () => picture(warm)))).message,
    /at most 64 pictures and sounds/,
  );
  assert.is((await answer('sees', picture(warm), text('What is this?'))).text, before.text);
  assert.is(await pidOf(), pid);
});

test('svc run --image and --audio; a projector beside the file', async () => {
  const files = ['warm.png', 'cold.png', 'tone.wav'].map((name) => join(home.dir, name));
  const [warmFile = '', coldFile = '', toneFile = ''] = files;
  writeFileSync(warmFile, warm);
  writeFileSync(coldFile, cold);
  writeFileSync(toneFile, tone);
  const ask = ['run', '--max-tokens', '12', '--temperature', '0'];
  const { text: expected } = await answer('sees', picture(warm), picture(cold), text('What is this?'));
  const printed = await run(...ask, '-m', 'sees', '--image', warmFile, '--image', coldFile, 'What is this?');
  assert.is(printed.trimEnd(), expected.trimEnd());
  const heard = await answer('hears', sound(tone), text('What is it?'));
  assert.is((await run(...ask, '-m', 'hears', '--audio', toneFile, 'What is it?')).trimEnd(), heard.text.trimEnd());

  const folder = join(home.dir, 'beside');
  mkdirSync(folder);
  copyFileSync(modelPath('tiny-llama'), join(folder, 'tiny-llama-Q8_0.gguf'));
  copyFileSync(projectorPath('clip'), join(folder, 'mmproj-tiny-llama-f16.gguf'));
  copyFileSync(projectorPath('siglip'), join(folder, 'mmproj-other-f16.gguf'));
  const path = join(folder, 'tiny-llama-Q8_0.gguf');
  const beside = await run(...ask, '-m', path, '--image', warmFile, '--image', coldFile, 'What is this?');
  assert.is(beside.trimEnd(), expected.trimEnd());
  const refused = await svc(['run', '-m', 'blind', '--image', warmFile, 'What?'], { home });
  assertExit(refused, 2);
  assert.match(refused.stderr, /cannot see pictures/);
});

test('after a restart a prompt with a picture comes from the disk', async () => {
  const words = text(Array.from({ length: 150 }, (_, index) => `word${String(index)}`).join(' '));
  const before = await answer('sees', picture(warm), words);
  await stop();
  await start();
  const after = await answer('sees', picture(warm), words);
  assert.is(after.text, before.text);
  assert.ok((after.usage.prompt_tokens_details?.cached_tokens ?? 0) > 64);
  assert.ok(((await answer('sees', picture(cold), words)).usage.prompt_tokens_details?.cached_tokens ?? 0) < 64);
});

test.run();
