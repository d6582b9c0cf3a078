/** What streams of the Responses API send while nothing comes of the model. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import OpenAI, { APIError } from 'openai';
import { SvcError } from '../../../src/protocol/errors.ts';
import { ResponseBuilder } from '../../../src/protocol/openai/responses/response-builder.ts';
import { parseResponses } from '../../../src/protocol/openai/responses/request.ts';
import { makeGate } from '../../support/gate.ts';
import { FINISH, START, startScripted, text, type Script, type ScriptedListener } from '../scripted.ts';
import { checkEvents } from './event-order.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before(async () => {
  listener = await startScripted({ limits: { heartbeatMs: 5 } });
  client = new OpenAI({ baseURL: `${listener.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
test.after(() => listener.stop());

const ASK = { model: 'tiny', input: 'Hi' };
type Event = OpenAI.Responses.ResponseStreamEvent;

/** An answer that waits before each of its two texts until the client has had heartbeats. */
function halting(): { readonly script: Script; see(event: Event): void } {
  const [first, second] = [makeGate(), makeGate()];
  const closed = [first, second];
  let beats = 0;
  return {
    script: async function* () {
      yield START;
      await first.opened;
      yield text('hello ');
      await second.opened;
      yield text('world');
      yield FINISH;
    },
    see: ({ type }) => {
      if (type === 'response.output_text.delta') beats = 0;
      if (type !== 'response.in_progress') return;
      beats += 1;
      if (beats === 3) closed.shift()?.open();
    },
  };
}

test('a client that waits gets events, which timers count, and response.created once', async () => {
  const { script, see } = halting();
  listener.backend.script = script;
  const events: Event[] = [];
  // This client takes the response of each `response.in_progress` for its own.
  const stream = client.responses.stream(ASK);
  for await (const event of stream) {
    events.push(structuredClone(event));
    see(event);
  }
  assert.is((await stream.finalResponse()).output_text, 'hello world');
  const { types } = checkEvents(events);
  const first = types.indexOf('response.output_item.added');
  assert.equal(types.slice(0, 4), ['response.created', ...Array.from({ length: 3 }, () => 'response.in_progress')]);
  assert.ok(types.slice(first).filter((type) => type === 'response.in_progress').length >= 3);
  assert.is(types.filter((type) => type === 'response.created').length, 1);
  const [created] = events;
  assert.ok(created?.type === 'response.created');
  assert.is(created.response.model, 'tiny');
});

test('an error after a heartbeat is response.failed, at a broken end', async () => {
  const begun = makeGate();
  listener.backend.script = async function* () {
    yield START;
    await begun.opened;
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  const events: Event[] = [];
  let thrown: unknown;
  try {
    for await (const event of await client.responses.create({ ...ASK, stream: true })) {
      events.push(event);
      begun.open();
    }
  } catch (error) {
    thrown = error;
  }
  assert.ok(thrown instanceof APIError);
  assert.match(thrown.message, /the engine is gone/);
  const types = events.map(({ type }) => type);
  assert.equal([types[0], types[1], types.at(-1)], ['response.created', 'response.in_progress', 'response.failed']);
  assert.is(types.filter((type) => type === 'response.created').length, 1);
  assert.equal(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
});

test('an answer that has ended is no longer in progress', () => {
  const answer = new ResponseBuilder({ id: 'resp_1', call: parseResponses({ input: 'x' }), store: true });
  assert.equal(
    [...answer.heartbeat(), ...answer.heartbeat(), ...answer.take(START)].map((event) => [
      event.sequence_number,
      event.type,
    ]),
    [
      [0, 'response.created'],
      [1, 'response.in_progress'],
      [2, 'response.in_progress'],
      [3, 'response.in_progress'],
    ],
  );
  answer.take(text('a'));
  answer.take(FINISH);
  assert.equal(answer.heartbeat(), []);
  assert.is(answer.last()[0]?.type, 'response.completed');
});

test('a background stream has the events of its journal only, however long its clients wait', async () => {
  const release = makeGate();
  listener.backend.script = async function* () {
    yield START;
    yield text('hello ');
    await release.opened;
    yield text('world');
    yield FINISH;
  };
  const answer = await fetch(`${listener.url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...ASK, background: true, stream: true }),
  });
  let all = '';
  for await (const piece of answer.body ?? []) {
    all += Buffer.from(piece as Uint8Array).toString();
    if (all.split(': waiting').length > 3) release.open();
  }
  const [, id = ''] = /"(resp_[0-9a-f]{32})"/.exec(all) ?? [];
  const sent = [...all.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data) as Event);
  checkEvents(sent);
  const read: Event[] = [];
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: 2 })) read.push(event);
  assert.equal(read, sent.slice(3));
});

test.run();
