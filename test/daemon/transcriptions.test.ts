/** `POST /v1/audio/transcriptions` end to end: the official client and a model that hears. */
import { copyFileSync, createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { APIError } from 'openai';
import OpenAI, { toFile } from 'openai';
import { failure } from '../http/api-failure.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { png, projectorPath, wav } from '../support/media-files.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';

type Fields = Partial<OpenAI.Audio.TranscriptionCreateParamsNonStreaming>;

const INSTRUCTION = 'Transcribe the recording word for word. Answer with the transcript only.';
const tone = wav(12_000, 440);

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

test.before(async () => {
  home = await makeHome();
  // Answers end with the context, which is short: a made model rarely ends its turn.
  configure(home, { engine: { context_length: 512 } });
  await add('hears', '--projector', projectorPath('whisper'));
  await add('sees', '--projector', projectorPath('clip'));
  daemon = await spawnDaemon(home).settled();
  client = new OpenAI({
    baseURL: `http://${String((await daemon.client.status()).http)}/v1`,
    apiKey: 'none',
    maxRetries: 0,
  });
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

async function add(name: string, ...more: string[]): Promise<void> {
  // A file for each, because an engine is a file.
  const file = join(home.dir, `${name}.gguf`);
  copyFileSync(modelPath('tiny-llama'), file);
  const { code, stderr } = await svc(['model', 'add', file, ...more], { home });
  assert.is(code, 0, stderr);
}

async function transcribe(fields: Fields = {}, bytes = tone): Promise<OpenAI.Audio.TranscriptionVerbose> {
  const answer = await client.audio.transcriptions.create({
    file: await toFile(bytes, 'a.bin'),
    model: 'hears',
    ...fields,
  });
  return answer as OpenAI.Audio.TranscriptionVerbose;
}

async function refusal(fields: Fields = {}, bytes = tone): Promise<Pick<APIError, 'status' | 'message' | 'param'>> {
  return failure(transcribe(fields, bytes));
}

/** The same as a chat. */
async function chat(words: string): Promise<string> {
  const content: OpenAI.ChatCompletionContentPart[] = [
    { type: 'input_audio', input_audio: { data: tone.toString('base64'), format: 'wav' } },
    { type: 'text', text: words },
  ];
  const { choices } = await client.chat.completions.create({
    model: 'hears',
    messages: [{ role: 'user', content }],
    temperature: 0,
  });
  return choices[0]?.message.content ?? '';
}

test('a transcript is the answer to a chat with the sound and the instruction', async () => {
  const { text, usage } = await transcribe();
  assert.is(text, await chat(INSTRUCTION));
  assert.ok(text.length > 0);
  assert.is(usage?.type, 'tokens');
  assert.not.equal((await transcribe({}, wav(12_000, 200))).text, text);
  const path = join(home.dir, 'tone.wav');
  writeFileSync(path, tone);
  assert.is((await transcribe({ file: createReadStream(path) })).text, text);
});

test('language and prompt are part of the instruction', async () => {
  const language = await transcribe({ language: 'de' });
  assert.is(language.text, await chat(`${INSTRUCTION}\nThe language is German.`));
  const both = await transcribe({ language: 'fr', prompt: 'Bonjour' });
  const more = 'The language is French.\nThe transcript continues this text, in its spelling and style:\nBonjour';
  assert.is(both.text, await chat(`${INSTRUCTION}\n${more}`));
});

test('formats', async () => {
  const { text } = await transcribe();
  assert.is(await transcribe({ response_format: 'text' }), `${text}\n`);
  const verbose = await transcribe({ response_format: 'verbose_json', language: 'de', temperature: 0 });
  assert.is(verbose.language, 'de');
  assert.is(verbose.duration, null);
  for (const response_format of ['srt', 'vtt'] as const) {
    const { status, param, message } = await refusal({ response_format });
    assert.equal([status, param], [400, 'response_format']);
    assert.match(message, /no timestamps/);
  }
  assert.is((await refusal({ response_format: 'xml' as never })).param, 'response_format');
});

test('a stream has the same text in pieces, and its usage at the end', async () => {
  const { text } = await transcribe();
  const stream = await client.audio.transcriptions.create({
    file: await toFile(tone, 'a.wav'),
    model: 'hears',
    stream: true,
  });
  let pieces = '';
  let done: OpenAI.Audio.TranscriptionTextDoneEvent | undefined;
  for await (const event of stream) {
    assert.is(done, undefined);
    if (event.type === 'transcript.text.delta') pieces += event.delta;
    else if (event.type === 'transcript.text.done') done = event;
  }
  assert.is(pieces, text);
  assert.is(done?.text, text);
  assert.ok((done?.usage?.total_tokens ?? 0) > 0);
  const refused = await failure(
    client.audio.transcriptions.create({
      file: await toFile(Buffer.from('OggS'), 'a.ogg'),
      model: 'hears',
      stream: true,
    }),
  );
  assert.equal([refused.status, refused.param], [400, 'file']);
});

test('what cannot be heard is refused by name', async () => {
  const wrong: [Fields, Buffer, string, RegExp][] = [
    [{}, Buffer.from('OggS'), 'file', /WAV, MP3 or FLAC/],
    [{}, Buffer.alloc(0), 'file', /WAV, MP3 or FLAC/],
    [{}, png(8, 8, () => [0, 0, 0]), 'file', /WAV, MP3 or FLAC/],
    [{}, tone.subarray(0, 40), 'file', /damaged|no samples/],
    [{}, wav(61_000, 1, 100), 'file', /longer than 600 seconds/],
    [{ model: 'sees' }, tone, 'model', /cannot hear sounds/],
    [{ language: 'klingon' }, tone, 'language', /must match/],
    [{ language: 'en-abc' }, tone, 'language', /must match/],
    [{ prompt: 'a'.repeat(20_000) }, tone, 'prompt', /at most 16384/],
    [{ temperature: -1 }, tone, 'temperature', /at least 0/],
    [{ temperature: 'hot' as never }, tone, 'temperature', /must be/],
    [{ stream: 'maybe' as never }, tone, 'stream', /must be/],
    [{ timestamp_granularities: ['word'] }, tone, 'timestamp_granularities', /not supported/],
    [{ include: ['logprobs'] }, tone, 'include', /not supported/],
  ];
  for (const [fields, bytes, param, why] of wrong) {
    const error = await refusal(fields, bytes);
    assert.equal([error.status, error.param], [400, param], `${param}: ${error.message}`);
    assert.match(error.message, why);
  }
  assert.is((await refusal({ model: 'absent' })).status, 404);
  assert.is((await refusal({ model: 'file:/etc/passwd' })).status, 404);
  const large = await refusal({}, Buffer.concat([tone, Buffer.alloc(20 * 1024 * 1024)]));
  assert.equal([large.status, large.param], [413, 'file']);
});

test.run();
