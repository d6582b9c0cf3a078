/** Ollama's routes over a scripted backend: lines, records, errors, names, and who may change the models. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import { fromContext } from '../../../src/protocol/ollama/context.ts';
import { NO_FACTS } from '../../../src/protocol/ollama/show.ts';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import type { LoadWishes } from '../../../src/protocol/routes.ts';
import type { Services } from '../../../src/daemon/services.ts';
import { read } from '../../architecture/source-files.ts';
import { ask, type Answer } from '../ask.ts';
import { FINISH, hello, START, startScripted, text, TINY, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
test.before.each(async () => {
  listener = await startScripted();
});
test.after.each(async () => await listener.stop());

const messages = [{ role: 'user', content: 'hi' }];
const WHOLE = { model: 'tiny:latest', messages, stream: false };

function linesOf({ text: body }: Answer): any[] {
  return body
    .trim()
    .split('\n')
    .map((line) => {
      const { created_at, ...rest } = JSON.parse(line) as { created_at?: string };
      if (created_at !== undefined) assert.ok(Date.parse(created_at) > 0);
      return rest;
    });
}

function answersWith(...events: GenerateEvent[]): void {
  listener.backend.script = async function* () {
    yield START;
    yield* events;
  };
}

const FIGURES = {
  total_duration: 3_000_000,
  load_duration: 1_000_000,
  prompt_eval_count: 7,
  prompt_eval_duration: 1_000_000,
  eval_count: 2,
  eval_duration: 1_000_000,
};

test('a chat streams lines, of which only the last is done', async () => {
  const answer = await ask(listener, '/api/chat', { body: { model: 'tiny:latest', messages } });
  assert.is(answer.headers['content-type'], 'application/x-ndjson; charset=utf-8');
  const model = 'tiny:latest';
  const line = (content: string) => ({ model, message: { role: 'assistant', content } });
  assert.equal(linesOf(answer), [
    { ...line('hello '), done: false },
    { ...line('world'), done: false },
    { ...line(''), done: true, done_reason: 'stop', ...FIGURES },
  ]);
  assert.equal(listener.backend.requests[0]?.model, 'tiny');
  const [whole] = linesOf(await ask(listener, '/api/chat', { body: WHOLE }));
  assert.equal(whole, { ...line('hello world'), done: true, done_reason: 'stop', ...FIGURES });
});

test('a prompt is answered in response', async () => {
  const body = { model: 'tiny', prompt: 'hi' };
  const lines = linesOf(await ask(listener, '/api/generate', { body }));
  assert.equal(
    lines.map(({ response, done }) => [response, done]),
    [
      ['hello ', false],
      ['world', false],
      ['', true],
    ],
  );
  const [whole] = linesOf(await ask(listener, '/api/generate', { body: { ...body, stream: false } }));
  const { context, ...rest } = whole as { context: number[] };
  assert.equal(rest, { model: 'tiny', response: 'hello world', done: true, done_reason: 'stop', ...FIGURES });
  assert.equal(fromContext(context), [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'hello world' },
  ]);
});

test('thinking and calls have fields of their own; a call comes whole', async () => {
  answersWith(
    { type: 'reasoning', text: 'hm' },
    text('Look: '),
    { type: 'tool_call', index: 0, id: 'A', name: 'look', arguments: '{"a"' },
    { type: 'tool_call', index: 0, arguments: ': [1]}' },
    { type: 'tool_call', index: 1, id: 'B', name: 'wait', arguments: '' },
    { ...FINISH, reason: 'tool_calls' },
  );
  const calls = [
    { id: 'A', function: { index: 0, name: 'look', arguments: { a: [1] } } },
    { id: 'B', function: { index: 1, name: 'wait', arguments: {} } },
  ];
  const lines = linesOf(await ask(listener, '/api/chat', { body: { ...WHOLE, stream: true } }));
  assert.equal(
    lines.map(({ message }) => message),
    [
      { role: 'assistant', content: '', thinking: 'hm' },
      { role: 'assistant', content: 'Look: ' },
      { role: 'assistant', content: '', tool_calls: calls },
      { role: 'assistant', content: '' },
    ],
  );
  assert.is(lines.at(-1).done_reason, 'stop');
  const [{ message }] = linesOf(await ask(listener, '/api/chat', { body: WHOLE }));
  assert.equal(message, { role: 'assistant', content: 'Look: ', thinking: 'hm', tool_calls: calls });
});

test('a call that was cut off is left out, and one that is no JSON fails the answer', async () => {
  const cut: GenerateEvent = { type: 'tool_call', index: 0, id: 'A', name: 'look', arguments: '{"a"' };
  answersWith(cut, { ...FINISH, reason: 'length' });
  const [{ message, done_reason }] = linesOf(await ask(listener, '/api/chat', { body: WHOLE }));
  assert.equal([message.tool_calls, done_reason], [undefined, 'length']);
  answersWith(cut, { ...FINISH, reason: 'tool_calls' });
  assert.is((await ask(listener, '/api/chat', { body: WHOLE })).status, 502);
});

test('log probabilities come with the text', async () => {
  const token = { token: 'a', bytes: [97], logprob: -0.5 };
  answersWith({ type: 'text', text: 'a', logprobs: [{ ...token, top: [token] }] }, FINISH);
  for (const stream of [true, false]) {
    const [{ logprobs }] = linesOf(await ask(listener, '/api/chat', { body: { ...WHOLE, stream, logprobs: true } }));
    assert.equal(logprobs, [{ ...token, top_logprobs: [token] }]);
  }
});

test('an error is a status before the first line, and after it a last line without an end', async () => {
  listener.backend.script = async function* () {
    throw new SvcError('MODEL_NOT_FOUND', 'there is no tiny', { hint: 'look' });
  };
  for (const stream of [true, false]) {
    const early = await ask(listener, '/api/chat', { body: { ...WHOLE, stream } });
    assert.equal(
      [early.status, early.json()],
      [404, { error: "model 'tiny:latest' not found: there is no tiny; look" }],
    );
  }
  listener.backend.script = async function* () {
    yield START;
    yield text('a');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  const late = await ask(listener, '/api/generate', { body: { model: 'tiny', prompt: 'hi' } });
  assert.equal([late.status, late.complete], [200, false]);
  const lines = linesOf(late);
  assert.equal(lines.at(-1), { error: 'the engine is gone' });
  assert.ok(lines.every(({ done }) => done !== true));
});

test('an error names the field as the client does', async () => {
  for (const [param, theirs] of [
    ['reasoning_effort', 'think'],
    ['format.schema', 'format'],
    ['messages[2].content[1]', 'messages[2].images[1]'],
    ['tools[0].parameters.not', 'tools[0].function.parameters.not'],
    ['max_tokens', 'options.num_predict'],
    ['tools', 'tools'],
  ] as const) {
    listener.backend.script = async function* () {
      throw new SvcError('INVALID_REQUEST', `${param} is odd`, { param });
    };
    const { status, text: body } = await ask(listener, '/api/chat', { body: WHOLE });
    assert.equal([status, JSON.parse(body)], [400, { error: `${theirs} is odd` }]);
  }
  listener.backend.script = async function* () {
    throw new SvcError('INVALID_REQUEST', 'this model has no eyes', { param: 'messages[0].content[0]' });
  };
  const blind = await ask(listener, '/api/chat', { body: WHOLE });
  assert.equal(blind.json(), { error: 'messages[0].images[0]: this model has no eyes' });
  for (const [reason, param, what] of [
    ["this model's chat template has no form for tool calls", 'tools', 'tools'],
    ["this model's chat template has no reasoning", 'reasoning_effort', 'thinking'],
  ] as const) {
    listener.backend.script = async function* () {
      throw new SvcError('INVALID_REQUEST', reason, { param });
    };
    const { status, text: body } = await ask(listener, '/api/chat', { body: WHOLE });
    const error = `"tiny:latest" does not support ${what}: ${reason}`;
    assert.equal([status, JSON.parse(body)], [400, { error }]);
  }
});

test('without messages the model is loaded or unloaded', async () => {
  const wishes: (LoadWishes | undefined)[] = [];
  const services = listener.services as { load: Services['load'] };
  services.load = async function* (model, _, wanted) {
    wishes.push(wanted);
    yield { type: 'loaded', model, pid: 1, context_length: 1 };
  };
  const [loaded] = linesOf(await ask(listener, '/api/chat', { body: { model: 'small:latest', keep_alive: '1m' } }));
  assert.equal([loaded.model, loaded.message, loaded.done], ['small:latest', { role: 'assistant', content: '' }, true]);
  assert.is(loaded.done_reason, 'load');
  assert.ok(loaded.load_duration >= 0);
  await ask(listener, '/api/embed', { body: { model: 'tiny', input: [] } });
  assert.equal(wishes, [{ briefly: true, keep_alive_seconds: 60 }, { briefly: true }]);

  const body = { model: 'default', stream: false, keep_alive: 0 };
  const [unloaded] = linesOf(await ask(listener, '/api/generate', { body }));
  assert.equal([unloaded.response, unloaded.done, unloaded.done_reason], ['', true, 'unload']);
  assert.equal(listener.world.unloaded, ['tiny']);
  listener.world.admits = 'local';
  assert.is((await ask(listener, '/api/generate', { body })).status, 403);
  assert.is((await ask(listener, '/api/chat', { body: { model: 'no' } })).status, 404);
  assert.equal(listener.backend.requests, []);
});

test('a name is the same with and without :latest; default is the default model', async () => {
  listener.backend.script = hello;
  for (const [typed, model] of [
    ['tiny', 'tiny'],
    ['TINY:latest', 'tiny'],
    ['org/tiny:latest', 'tiny'],
    ['other:latest', 'other'],
    ['other:4b', 'other:4b'],
    ['default', undefined],
    ['default:latest', undefined],
  ] as const) {
    await ask(listener, '/api/chat', { body: { ...WHOLE, model: typed } });
    assert.is(listener.backend.requests.pop()?.model, model, typed);
  }
  const file = await ask(listener, '/api/chat', { body: { ...WHOLE, model: 'file:/etc/passwd:latest' } });
  assert.is(file.status, 404);
});

const DETAILS = {
  parent_model: '',
  format: 'gguf',
  family: 'llama',
  families: ['llama'],
  parameter_size: '1',
  quantization_level: 'F16',
};

const DEVICES = [
  { name: 'CPU', memory_bytes: 20 },
  { name: 'CUDA0', memory_bytes: 50 },
  { name: 'CUDA1', memory_bytes: 7 },
];

test('lists', async () => {
  const tiny = { name: 'tiny:latest', model: 'tiny:latest', size: 1, digest: '', details: DETAILS };
  assert.equal((await ask(listener, '/api/tags')).json().models, [{ ...tiny, modified_at: TINY.modified_at }]);
  assert.equal((await ask(listener, '/api/ps')).json(), { models: [] });
  const services = listener.services as { models: Services['models'] };
  const loaded = {
    pid: 9,
    device: 'CPU',
    context_length: 2048,
    cache_type: 'f16',
    memory_bytes: 77,
    placement: { layers: 3, gpu_layers: 2, cpu_experts: 0, devices: DEVICES },
    active: 0,
    expires_at: '2026-11-01T00:05:00Z',
  } as const;
  services.models = () =>
    Promise.resolve([
      { ...TINY, loaded },
      { ...TINY, id: 'twin', from: 'tiny', loaded },
    ]);
  assert.equal((await ask(listener, '/api/ps')).json().models, [
    { ...tiny, size: 77, expires_at: loaded.expires_at, size_vram: 57, context_length: 2048 },
  ]);
});

test('one model', async () => {
  listener.world.shelf.describe = () =>
    Promise.resolve({
      ...NO_FACTS,
      metadata: { 'general.architecture': 'llama', 'tokenizer.ggml.tokens': null },
      template: '{{ x }}',
      modelfile: 'FROM tiny\nPARAMETER top_k 3\nPARAMETER stop "a"',
      parameters: ['top_k 3', 'stop "a"'],
    });
  const shown = (await ask(listener, '/api/show', { body: { name: 'tiny' } })).json();
  assert.equal(shown, {
    modelfile: 'FROM tiny\nPARAMETER top_k 3\nPARAMETER stop "a"',
    parameters: 'top_k 3\nstop "a"',
    template: '{{ x }}',
    details: DETAILS,
    model_info: {
      'general.architecture': 'llama',
      'general.basename': 'tiny',
      'general.parameter_count': 1,
      'llama.context_length': 4096,
      'tokenizer.ggml.tokens': null,
    },
    capabilities: ['completion'],
    modified_at: TINY.modified_at,
  });
  assert.is((await ask(listener, '/api/show', { body: { model: 'no' } })).status, 404);
  for (const path of ['/', '/api/version', '/api/tags'])
    assert.is((await ask(listener, path, { method: 'HEAD' })).status, 200);
  assert.is((await ask(listener, '/')).text, 'Ollama is running');
});

/** Versions without which clients send nothing else. That of Codex is Ollama's first with `/v1/responses`. */
const REQUIRED = { 'codex --oss': '0.13.4', 'another app': '0.14.2' };

test('the version is one that clients accept, and the one of the docs', async () => {
  const { version } = (await ask(listener, '/api/version')).json() as { version: string };
  assert.match(version, /^\d+\.\d+\.\d+$/);
  for (const [client, least] of Object.entries(REQUIRED))
    assert.ok(version.localeCompare(least, 'en', { numeric: true }) >= 0, `${client} refuses ${version}`);
  assert.match(read('docs/ollama.md'), `\`version\`: ${version},`);
});

test('copy, create and delete need an admin key, their method, and JSON', async () => {
  const done: string[] = [];
  const { shelf } = listener.world;
  shelf.copy = async ({ id }, name) => void done.push(`copy ${id} ${name}`);
  shelf.remove = async ({ id }) => void done.push(`remove ${id}`);
  shelf.create = async (name, { id }, { parameters, system = '' }) => {
    done.push(`create ${name} ${id} ${JSON.stringify(parameters)} ${system}`);
    return ['num_batch is skipped'];
  };
  const asks: readonly [method: string, path: string, body: object][] = [
    ['POST', '/api/copy', { source: 'tiny', destination: 'twin:latest' }],
    ['DELETE', '/api/delete', { name: 'small' }],
    ['POST', '/api/create', { model: 'm', from: 'tiny', system: 's', parameters: { top_k: 3 } }],
  ];
  for (const [method, path, body] of asks) {
    assert.is((await ask(listener, path, { method, body })).status, 401, 'loopback without keys');
    listener.world.key = 'deploy';
    assert.is((await ask(listener, path, { method, body })).status, 200);
    const other = await ask(listener, path, { method: method === 'POST' ? 'DELETE' : 'POST', body });
    assert.equal([other.status, other.headers.allow], [405, method]);
    const origin = { origin: 'https://evil.example' };
    assert.is((await ask(listener, path, { method, body, headers: origin })).status, 403);
    const plain = { 'content-type': 'text/plain' };
    assert.is((await ask(listener, path, { method, body: JSON.stringify(body), headers: plain })).status, 400);
    listener.world.admits = 'inference';
    assert.is((await ask(listener, path, { method, body })).status, 403);
    Object.assign(listener.world, { admits: 'admin', key: null });
  }
  assert.equal(done, ['copy tiny twin', 'remove tiny', 'create m tiny {"top_k":3} s']);
  listener.world.key = 'deploy';
  const created = await ask(listener, '/api/create', { body: { model: 'm', from: 'tiny' } });
  assert.equal(
    linesOf(created).map(({ status }) => status),
    ['num_batch is skipped', 'writing manifest', 'success'],
  );
  assert.is((await ask(listener, '/api/delete', { method: 'DELETE', body: { model: 'no' } })).status, 404);
});

test('vectors are numbers; what was cut is counted', async () => {
  const body = { model: 'tiny:latest', input: ['a', 'bcd'] };
  const { embeddings, ...rest } = (await ask(listener, '/api/embed', { body })).json();
  assert.equal(
    embeddings.map(([length]: number[]) => length),
    [1, 3],
  );
  assert.equal(rest, {
    model: 'tiny:latest',
    total_duration: 3_000_000,
    load_duration: 1_000_000,
    prompt_eval_count: 7,
  });
  assert.is(listener.backend.embedRequests[0]?.truncate, true);
  const one = await ask(listener, '/api/embeddings', { body: { model: 'tiny', prompt: 'abcd' } });
  assert.is(one.json().embedding[0], 4);
  listener.backend.embedScript = async function* () {
    throw new SvcError('INVALID_REQUEST', 'input[0] is odd', { param: 'input[0]' });
  };
  const refused = await ask(listener, '/api/embeddings', { body: { model: 'tiny', prompt: 'a' } });
  assert.equal([refused.status, refused.json()], [400, { error: 'prompt is odd' }]);
});

test.run();
