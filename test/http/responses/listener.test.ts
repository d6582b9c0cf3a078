/** The routes of the Responses API with the official client, over a scripted backend. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import OpenAI, { APIError } from 'openai';
import { SvcError } from '../../../src/protocol/errors.ts';
import { failure } from '../api-failure.ts';
import { ask, type Answer } from '../ask.ts';
import { FINISH, hello, START, startScripted, text, type ScriptedListener } from '../scripted.ts';
import { makeGate } from '../../support/gate.ts';
import { checkEvents } from './event-order.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before(async () => {
  listener = await startScripted();
  client = new OpenAI({ baseURL: `${listener.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.script = hello;
  listener.backend.requests.length = 0;
  Object.assign(listener.world, { admits: 'admin', key: null });
});

const ASK = { model: 'tiny', input: 'Hi' };
const post = (body: object, path = '/v1/responses'): Promise<Answer> => ask({ port: listener.port }, path, { body });
const asKey = (key: string): void => void Object.assign(listener.world, { admits: 'local', key });

async function events(body: object): Promise<object[]> {
  return eventsIn((await post({ ...ASK, ...body, stream: true })).text);
}

function eventsIn(all: string): object[] {
  return all
    .split('\n\n')
    .filter((each) => each !== '')
    .map((each) => {
      const [, name = '', data = ''] = /^event: (\S+)\ndata: (.*)$/s.exec(each) ?? [];
      const event = JSON.parse(data) as { type: string };
      assert.is(event.type, name);
      return event;
    });
}

test('a whole response', async () => {
  const response = await client.responses.create({ ...ASK, metadata: { a: 'b' } });
  assert.match(response.id, /^resp_[0-9a-f]{32}$/);
  assert.equal([response.output_text, response.status, response.model], ['hello world', 'completed', 'tiny']);
  assert.equal([response.metadata, response.usage?.total_tokens, response.error], [{ a: 'b' }, 9, null]);
});

test('a response lists the types of the items that it was made without', async () => {
  const searched = { id: 'ws_1', type: 'web_search_call', status: 'completed' } as const;
  const answer = await post({ ...ASK, input: [searched, { role: 'user', content: 'Hi' }] });
  assert.equal([answer.status, answer.json().ignored_items], [200, ['web_search_call']]);
  assert.is((await post(ASK)).json().ignored_items, undefined);
});

test('a stream has the same, event by event, and ends without [DONE]', async () => {
  const { response } = checkEvents(await events({}));
  assert.is(response.output[0].content[0].text, 'hello world');
  const stream = client.responses.stream(ASK);
  const seen: string[] = [];
  for await (const event of stream) seen.push(event.type);
  const final = await stream.finalResponse();
  assert.is(final.output_text, 'hello world');
  assert.is(seen.at(-1), 'response.completed');
});

test('a response is continued, read, listed and deleted', async () => {
  const first = await client.responses.create({ ...ASK, instructions: 'Be brief.' });
  const second = await client.responses.create({ ...ASK, input: 'More', previous_response_id: first.id });
  // Instructions are not carried over.
  assert.equal(listener.backend.requests.at(-1)?.messages, [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'hello world' },
    { role: 'user', content: 'More' },
  ]);
  assert.is(second.previous_response_id, first.id);
  assert.equal((await client.responses.retrieve(second.id)).output, second.output);

  // Responses are independent of one another.
  await client.responses.delete(first.id);
  assert.is((await failure(client.responses.retrieve(first.id))).status, 404);
  const items = [];
  for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 })) items.push(item);
  assert.equal(
    items.map((item) => (item as { content: { text: string }[] }).content[0]?.text),
    ['Hi', 'hello world', 'More'],
  );
  const page = await client.responses.inputItems.list(second.id, { limit: 1 });
  assert.equal([page.data[0]?.id, page.has_more], [items[2]?.id, true]);
});

test('the input items of a background response are listed while it runs', async () => {
  const ended = makeGate();
  listener.backend.script = async function* () {
    yield START;
    await ended.opened;
    yield FINISH;
  };
  const { id } = await client.responses.create({ ...ASK, background: true });
  try {
    const { data } = await client.responses.inputItems.list(id);
    assert.equal(
      data.map((item) => (item as { content: { text: string }[] }).content[0]?.text),
      ['Hi'],
    );
  } finally {
    ended.open();
  }
  const seen: string[] = [];
  for await (const { type } of await client.responses.retrieve(id, { stream: true })) seen.push(type);
  assert.is(seen.at(-1), 'response.completed');
});

test('an item is referred to by its id', async () => {
  const { output } = await client.responses.create(ASK);
  const reference = { type: 'item_reference' as const, id: output[0]?.id ?? '' };
  await client.responses.create({ ...ASK, input: [reference, { role: 'user', content: 'b' }] });
  assert.equal(listener.backend.requests.at(-1)?.messages, [
    { role: 'assistant', content: 'hello world' },
    { role: 'user', content: 'b' },
  ]);
  for (const id of ['msg_unknown', `msg_${'0'.repeat(32)}_0`]) {
    const { status, param } = await failure(client.responses.create({ ...ASK, input: [{ ...reference, id }] }));
    assert.equal([status, param], [400, 'input[0].id']);
  }
});

test('a large item counts with each reference to it', async () => {
  const { id } = await client.responses.create({ ...ASK, input: 'a'.repeat(4 * 1024 * 1024) });
  const { data } = await client.responses.inputItems.list(id);
  const references = (count: number) =>
    Array.from({ length: count }, () => ({ type: 'item_reference' as const, id: data[0]?.id ?? '' }));
  await client.responses.create({ ...ASK, input: references(10) });
  assert.is(listener.backend.requests.at(-1)?.messages.length, 10);
  assert.is((await failure(client.responses.create({ ...ASK, input: references(100) }))).status, 429);
});

test('only the key that made a response has it', async () => {
  asKey('mine');
  const { id, output } = await client.responses.create(ASK);
  asKey('other');
  for (const work of [
    () => client.responses.retrieve(id),
    () => client.responses.inputItems.list(id),
    () => client.responses.delete(id),
    () => client.responses.cancel(id),
  ])
    assert.is((await failure(work())).status, 404);
  const continued = await failure(client.responses.create({ ...ASK, previous_response_id: id }));
  assert.equal([continued.status, continued.param], [400, 'previous_response_id']);
  const input = [{ type: 'item_reference' as const, id: output[0]?.id ?? '' }];
  assert.is((await failure(client.responses.create({ ...ASK, input }))).param, 'input[0].id');
  asKey('mine');
  assert.is((await client.responses.retrieve(id)).id, id);
});

test('a response that was stored without its items can be read and deleted, not continued', async () => {
  const { id } = await client.responses.create(ASK);
  const { responses } = listener.services;
  const { response, ...whole } = (await responses.find(id, 'address:127.0.0.1'))!;
  const ended = { ...response, background: true, status: 'failed', output: [] } as const;
  await responses.put({ ...whole, response: ended, input: [], has_items: false });
  assert.is((await client.responses.retrieve(id)).status, 'failed');
  assert.match((await failure(client.responses.inputItems.list(id))).message, /^404 .* too large to be stored/);
  assert.match(
    (await failure(client.responses.retrieve(id, { stream: true }))).message,
    /^404 .* too large to be stored/,
  );
  const continued = await failure(client.responses.create({ ...ASK, previous_response_id: id }));
  assert.equal([continued.status, continued.param], [400, 'previous_response_id']);
  await client.responses.delete(id);
});

test('store: false stores nothing', async () => {
  const before = readdirSync(listener.responsesDir).length;
  const response = await client.responses.create({ ...ASK, store: false });
  assert.is((response as { store?: boolean }).store, false);
  assert.is(readdirSync(listener.responsesDir).length, before);
  assert.is((await failure(client.responses.retrieve(response.id))).status, 404);
  assert.is(listener.backend.requests.at(-1)?.store, false);
});

test('a daemon that stores nothing says so', async () => {
  const off = await startScripted({ storesResponses: false });
  try {
    const own = new OpenAI({ baseURL: `${off.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const response = await own.responses.create(ASK);
    assert.is((response as { store?: boolean }).store, false);
    assert.is((await failure(own.responses.create({ ...ASK, store: true }))).param, 'store');
    assert.is(
      (await failure(own.responses.create({ ...ASK, previous_response_id: response.id }))).param,
      'previous_response_id',
    );
    assert.not.ok(existsSync(off.responsesDir));
  } finally {
    await off.stop();
  }
});

test('input tokens are counted before a response is made', async () => {
  const first = await client.responses.create({ ...ASK, instructions: 'Be brief.' });
  const counted = await client.responses.inputTokens.count({ ...ASK, previous_response_id: first.id, tools: [] });
  assert.equal(counted, { object: 'response.input_tokens', input_tokens: 7 });
  const { messages } = listener.backend.tokenizeRequests.at(-1) as { messages: object[] };
  assert.is(messages.length, 3);
  assert.is((await failure(client.responses.inputTokens.count({ model: 'tiny' }))).param, 'input');
});

test('only a background response can be cancelled and read as a stream', async () => {
  const { id } = await client.responses.create(ASK);
  assert.is((await failure(client.responses.cancel(id))).status, 400);
  assert.is((await failure(client.responses.retrieve(id, { stream: true }))).param, 'stream');
  const { status, param } = await failure(client.responses.create({ ...ASK, background: true, store: false }));
  assert.equal([status, param], [400, 'store']);
});

test('a background request is bounded without its input, which is not repeated', async () => {
  const large = 'x'.repeat(1024 * 1024);
  for (const more of [{ instructions: large }, { tools: [{ type: 'web_search', filler: large }] }]) {
    const answer = await post({ ...ASK, ...more, background: true });
    assert.is(answer.status, 413);
    assert.match(answer.text, /at most 1048576 bytes without the input/);
  }
  const { id } = await client.responses.create({ ...ASK, input: large, background: true });
  await (
    await listener.services.background.running(id, 'address:127.0.0.1')
  )?.finished;
  const journal = readFileSync(join(listener.responsesDir, 'background', `${id}.jsonl`), 'utf8');
  assert.is(journal.split(large).length, 2, 'the input is kept once');
  assert.is((await client.responses.retrieve(id)).status, 'completed');
});

test('methods that a path does not answer are refused with those that it does', async () => {
  const { id } = await client.responses.create(ASK);
  const allow = async (method: string, path: string): Promise<unknown> => {
    const { status, headers } = await ask({ port: listener.port }, path, { method });
    return [status, headers.allow];
  };
  assert.equal(await allow('PUT', `/v1/responses/${id}`), [405, 'GET, HEAD, DELETE']);
  assert.equal(await allow('GET', '/v1/responses'), [405, 'POST']);
  assert.equal(await allow('GET', `/v1/responses/${id}/cancel`), [405, 'POST']);
  assert.equal(await allow('HEAD', `/v1/responses/${id}`), [200, undefined]);
  assert.equal(await allow('DELETE', `/v1/models/tiny`), [405, 'GET, HEAD']);
  assert.equal(await allow('GET', '/v1/responses/'), [405, 'POST']);
  assert.equal(await allow('POST', '/v1/responses/compact'), [404, undefined]);
});

test('an error before the first event is a status, later an event at a broken end', async () => {
  const error = new SvcError('ENGINE_CRASHED', 'the engine is gone');
  listener.backend.script = async function* () {
    yield START;
    throw error;
  };
  const early = await failure(client.responses.create({ ...ASK, stream: true }));
  assert.equal([early.status, early.code], [502, 'engine_crashed']);

  listener.backend.script = async function* () {
    yield START;
    yield text('half');
    throw error;
  };
  const stream = await client.responses.create({ ...ASK, stream: true });
  const seen: OpenAI.Responses.ResponseStreamEvent[] = [];
  let thrown: unknown;
  try {
    for await (const event of stream) seen.push(event);
  } catch (caught) {
    thrown = caught;
  }
  assert.ok(thrown instanceof APIError);
  assert.match(thrown.message, /the engine is gone/);
  const last = seen.at(-1);
  assert.ok(last?.type === 'response.failed');
  assert.is(last.response.error?.code, 'server_error');
  const raw = await post({ ...ASK, stream: true });
  assert.is(raw.complete, false);
  assert.match(raw.text, /event: error\n/);
});

test('a prompt that is too long fails a stream by its events, and a whole response by its status', async () => {
  const error = new SvcError('CONTEXT_OVERFLOW', 'the prompt has 9 tokens, the context 8');
  for (const yielded of [[], [START]]) {
    listener.backend.script = async function* () {
      yield* yielded;
      throw error;
    };
    const { status, complete, text: all } = await post({ ...ASK, stream: true });
    // Codex takes a broken connection for a fault of the network, and asks again.
    assert.equal([status, complete], [200, true]);
    const seen = eventsIn(all) as { type: string; sequence_number: number; response?: any }[];
    const types = seen.map(({ type }) => type);
    assert.equal([types[0], ...types.slice(-2)], ['response.created', 'response.failed', 'error']);
    assert.equal(
      seen.map(({ sequence_number }) => sequence_number),
      seen.map((_, index) => index),
    );
    assert.is(seen[0]?.response.status, 'in_progress');
    assert.is(seen.at(-2)?.response.error.code, 'context_length_exceeded');
    const whole = await failure(client.responses.create(ASK));
    assert.is(whole.code, 'context_length_exceeded');
  }
});

test('usage that a provider does not report is null', async () => {
  listener.backend.script = async function* () {
    yield START;
    yield text('a');
    yield { ...FINISH, usage: null };
  };
  assert.is((await client.responses.create(ASK)).usage, null);
});

test('an invalid request is refused before any backend is called', async () => {
  for (const [body, param] of [
    [{ model: 'tiny' }, 'input'],
    [{ model: 'tiny', input: [] }, 'input'],
    [{ model: 'tiny', input: [{ type: 'compaction', encrypted_content: 'x' }] }, 'input'],
    [{ model: 'tiny', input: [{ type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] }] }, 'input'],
    [{ ...ASK, previous_response_id: 'resp_unknown' }, 'previous_response_id'],
    [{ ...ASK, model: 'file:/etc/passwd' }, 'model'],
    [[], null],
  ] as const) {
    const answer = await post(body);
    assert.equal(answer.json().error.param, param, JSON.stringify(body));
    assert.ok(answer.status === 400 || answer.status === 404);
  }
  assert.is(listener.backend.requests.length, 0);
});

test.run();
