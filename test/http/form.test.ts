/** Bodies of multipart/form-data: fields, bounds, and bodies made to cost the daemon time. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { LIMITS } from '../../src/protocol/limits.ts';
import { wav } from '../support/media-files.ts';
import { ask, type Answer } from './ask.ts';
import { START, startScripted, type ScriptedListener } from './scripted.ts';

const PATH = '/v1/audio/transcriptions';
const TYPE = 'multipart/form-data; boundary=b0undary';
const SOUND = wav(100, 440);

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());

type Part = readonly [headers: string, body: string | Buffer];

const field = (name: string, value: string): Part => [`content-disposition: form-data; name="${name}"`, value];
const FILE: Part = ['Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', SOUND];

function form(...parts: Part[]): Buffer {
  const pieces = parts.flatMap(([headers, body]) => [`--b0undary\r\n${headers}\r\n\r\n`, body, '\r\n']);
  return Buffer.concat([...pieces, '--b0undary--\r\n'].map((piece) => Buffer.from(piece)));
}

const post = (body: Buffer | string, headers: Record<string, string> = {}): Promise<Answer> =>
  ask(listener, PATH, { body, headers: { 'content-type': TYPE, ...headers } });

const failureOf = ({ status, json }: Answer): unknown[] => {
  const { error } = json() as { error: { param: string | null; code: string } };
  return [status, error.param, error.code];
};

test('a form becomes one request with the sound and the instruction', async () => {
  const answer = await post(form(FILE, field('model', 'tiny'), field('prompt', ''), field('other', 'x')));
  assert.is(answer.status, 200, answer.text);
  const { text, usage, finish_reason } = answer.json();
  assert.equal(
    [text, usage, finish_reason],
    ['hello world', { type: 'tokens', input_tokens: 7, output_tokens: 2, total_tokens: 9 }, 'stop'],
  );
  const { messages, ...rest } = listener.backend.requests.at(-1)!;
  assert.equal(rest, { model: 'tiny', sampling: { temperature: 0 }, stop: [], reasoning_effort: 'none' });
  const [sound, instruction] = messages[0]!.content as [object, { text: string }];
  assert.equal(sound, { type: 'audio', media_type: 'audio/wav', data: SOUND.toString('base64') });
  assert.match(instruction.text, /^Transcribe the recording/);
  assert.is((await post(form(FILE), { 'content-type': 'multipart/form-data; boundary="b0undary"' })).status, 200);
  assert.not.ok('model' in listener.backend.requests.at(-1)!);
});

test('a stream in events', async () => {
  const { text } = await post(form(FILE, field('stream', 'true')));
  const events = text
    .trim()
    .split('\n\n')
    .map((line) => JSON.parse(line.slice('data: '.length)) as { type: string });
  assert.equal(
    events.map(({ type }) => type),
    ['transcript.text.delta', 'transcript.text.delta', 'transcript.text.done'],
  );
});

test('fields are required, given once, and of the right kind', async () => {
  const wrong: [Buffer, string][] = [
    [form(field('model', 'tiny')), 'file'],
    [form(field('file', 'RIFF')), 'file'],
    [form(FILE, FILE), 'file'],
    [form(FILE, field('model', 'a'), field('model', 'b')), 'model'],
    [form(FILE, ['content-disposition: form-data; name="model"; filename="m"', 'x']), 'model'],
    [form(FILE, field('response_format', 'verbose_json'), field('stream', 'true')), 'response_format'],
    [form(FILE, field('include[]', 'logprobs')), 'include'],
  ];
  for (const [body, param] of wrong) assert.equal(failureOf(await post(body)), [400, param, 'invalid_request']);
});

test('an error names the field of the form', async () => {
  const { backend } = listener;
  const { script } = backend;
  backend.script = async function* () {
    yield START;
    throw new SvcError('INVALID_REQUEST', 'providers take no sounds', { param: 'messages[0].content[0]' });
  };
  assert.equal(failureOf(await post(form(FILE, field('model', 'tiny')))), [400, 'model', 'invalid_request']);
  // Not the model of this machine.
  assert.equal(failureOf(await post(form(FILE, field('model', 'openai/x')))), [400, 'file', 'invalid_request']);
  backend.script = script;
});

test('other content types, and forms that are none, are refused', async () => {
  for (const type of ['application/json', 'text/plain', 'multipart/form-data', 'multipart/mixed; boundary=b0undary']) {
    assert.is((await post(form(FILE), { 'content-type': type })).status, 400, type);
  }
  for (const type of [
    'boundary=',
    `boundary=${'b'.repeat(71)}`,
    'boundary=b0undary; boundary=x',
    'boundary="b0undary',
  ]) {
    assert.is((await post(form(FILE), { 'content-type': `multipart/form-data; ${type}` })).status, 400, type);
  }
  const broken = [
    '',
    '--b0undary',
    '--b0undary--',
    '--b0undary\r\n\r\n\r\n--b0undary--',
    '--b0undary\r\ncontent-disposition: form-data\r\n\r\na\r\n--b0undary--',
    "--b0undary\r\ncontent-disposition: form-data; name*=utf-8''%ff\r\n\r\na\r\n--b0undary--",
    '--b0undary\r\nx\r\n\r\na\r\n--b0undary--',
    form(FILE).subarray(0, 200),
  ];
  for (const body of broken) assert.is((await post(body)).status, 400, String(body));
  assert.is((await post(form(FILE), { 'content-encoding': 'gzip' })).status, 400);
});

test('a page of another origin cannot post a form, nor an unknown host', async () => {
  const sent = listener.backend.requests.length;
  for (const origin of ['null', 'http://evil.example', 'http://localhost:3000', '']) {
    assert.is((await post(form(FILE), { origin })).status, 403, origin);
  }
  assert.is((await post(form(FILE), { host: 'evil.example' })).status, 403);
  assert.is(listener.backend.requests.length, sent);
  assert.is(
    (await ask(listener, '/v1/chat/completions', { body: form(FILE), headers: { 'content-type': TYPE } })).status,
    400,
  );
});

test('bytes, parts and headers are limited before anything is parsed', async () => {
  const many = (count: number): Buffer => form(FILE, ...Array.from({ length: count }, (_, at) => field(`x${at}`, '')));
  assert.is((await post(many(LIMITS.formParts - 1))).status, 200);
  assert.match((await post(many(LIMITS.formParts))).text, /more than 64 parts/);
  const headers = (bytes: number): Buffer => form([`x: ${'a'.repeat(bytes)}\r\n${FILE[0]}`, SOUND]);
  assert.is((await post(headers(LIMITS.formHeaderBytes - 200))).status, 200);
  assert.match((await post(headers(LIMITS.formHeaderBytes))).text, /more than 8192 bytes of headers/);

  const size = LIMITS.formBytes - 1000;
  const costly = [
    // Millions of parts, of attributes, of bytes of a header.
    Buffer.from(`--b0undary\r\n${FILE[0]}\r\n\r\n\r\n`.repeat(100_000)),
    Buffer.from(`--b0undary\r\ncontent-disposition: form-data${';a=b'.repeat(size / 4)}`),
    Buffer.from(`--b0undary\r\n${'x'.repeat(size)}`),
    Buffer.from(`--b0undary\r\n${'x:y\r\n'.repeat(size / 5)}`),
  ];
  for (const body of costly) assert.match((await post(body)).text, /more than (64 parts|8192 bytes of headers)/);
  const most = form([FILE[0], Buffer.concat([SOUND, Buffer.alloc(LIMITS.mediaBytes - SOUND.length)])]);
  assert.is((await post(most)).status, 200);
  assert.equal(failureOf(await post(form([FILE[0], Buffer.alloc(LIMITS.mediaBytes + 1)]))), [
    413,
    'file',
    'request_too_large',
  ]);
  assert.equal(failureOf(await post(Buffer.alloc(LIMITS.formBytes + 1))), [413, null, 'request_too_large']);
});

test.run();
