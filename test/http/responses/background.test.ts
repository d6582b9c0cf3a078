/** Background responses with the official client, over a scripted backend that ends at will. */
import { appendFileSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import OpenAI from 'openai';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest } from '../../../src/protocol/generate.ts';
import { BackgroundResponses, MOST_RUNNING } from '../../../src/responses/background/background.ts';
import { failure } from '../api-failure.ts';
import { aborted, FINISH, START, startScripted, type Script, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
let client: OpenAI;
test.before.each(async () => {
  listener = await startScripted({ script: counting });
  client = new OpenAI({ baseURL: `${listener.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
test.after.each(async () => {
  await listener.services.background.suspend();
  await listener.stop();
});

const WORDS = ['one ', 'two ', 'three ', 'four ', 'five'];
const ALL = WORDS.join('');
const ASK = { model: 'tiny', input: 'Count', background: true } as const;
type Event = OpenAI.Responses.ResponseStreamEvent;

/** Like a local engine: a token for each word, and those of the continuation are told once more, in one event. */
async function* countingTo(upTo: number, { continuation }: GenerateRequest): AsyncGenerator<GenerateEvent> {
  const { tokens = [] } = continuation ?? {};
  assert.equal(
    tokens,
    WORDS.slice(0, tokens.length).map((_, index) => index),
  );
  yield START;
  if (tokens.length > 0) yield { type: 'text', text: WORDS.slice(0, tokens.length).join('') };
  for (let at = tokens.length; at < upTo; at += 1) {
    yield { type: 'text', text: WORDS[at] ?? '', tokens: [at] };
  }
  if (upTo === WORDS.length) yield FINISH;
}

const counting: Script = (request) => countingTo(WORDS.length, request);

/** Ends after some words as a killed engine does, once for each number. */
function dying(...after: readonly number[]): Script {
  const left = [...after];
  return async function* (request) {
    const upTo = left.shift();
    yield* countingTo(upTo ?? WORDS.length, request);
    if (upTo !== undefined) throw new SvcError('ENGINE_CRASHED', 'the engine was killed');
  };
}

/** Says two words, then nothing more until it is stopped. */
const hanging: Script = async function* (request, { signal }) {
  yield* countingTo(2, request);
  throw (await aborted(signal)) as Error;
};

async function read(events: AsyncIterable<Event>): Promise<Event[]> {
  const seen: Event[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

function textOf(events: readonly Event[]): string {
  return events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
}

function checkNumbers(events: readonly Event[], first = 0): void {
  assert.equal(
    events.map(({ sequence_number: number }) => number),
    events.map((_, index) => first + index),
  );
}

async function follow(id: string, after?: number): Promise<Event[]> {
  const place = after === undefined ? {} : { starting_after: after };
  return await read(await client.responses.retrieve(id, { stream: true, ...place }));
}

test('a response is queued at once, and read when it has ended', async () => {
  const { id, status, background } = await client.responses.create(ASK);
  assert.equal([status, background], ['queued', true]);
  const events = await follow(id);
  checkNumbers(events);
  assert.equal(
    events.slice(0, 3).map(({ type }) => type),
    ['response.created', 'response.queued', 'response.in_progress'],
  );
  assert.is(events.at(-1)?.type, 'response.completed');
  assert.is(textOf(events), ALL);
  const response = await client.responses.retrieve(id);
  assert.equal([response.status, response.output_text], ['completed', ALL]);
  assert.equal((events.at(-1) as { response?: unknown }).response, JSON.parse(JSON.stringify(response, known)));
  const next = await client.responses.create({ model: 'tiny', input: 'More', previous_response_id: id });
  assert.is(next.previous_response_id, id);
});

/** Leaves out what the client adds. */
function known(key: string, value: unknown): unknown {
  return key === 'output_text' || key === '_request_id' ? undefined : value;
}

test('every place of the events can be read on from, again and again', async () => {
  const events = await read(await client.responses.create({ ...ASK, stream: true }));
  checkNumbers(events);
  const [first] = events as [OpenAI.Responses.ResponseCreatedEvent];
  for (let after = 0; after < events.length; after += 1) {
    assert.equal(await follow(first.response.id, after), events.slice(after + 1));
  }
});

test('an engine that dies in the middle is gone on with: no gap, no repeat', async () => {
  listener.backend.script = dying(2, 4);
  const { id } = await client.responses.create(ASK);
  const events = await follow(id);
  checkNumbers(events);
  assert.is(textOf(events), ALL);
  const seeds = new Set(listener.backend.requests.map(({ continuation }) => continuation?.seed));
  assert.equal([listener.backend.requests.length, seeds.size], [3, 1]);
});

test('an engine that dies again and again without a further token fails the response', async () => {
  listener.backend.script = dying(2, 2, 2, 2, 2);
  const { id } = await client.responses.create(ASK);
  const events = await follow(id);
  assert.is(events.at(-1)?.type, 'response.failed');
  const { status, error } = await client.responses.retrieve(id);
  assert.equal([status, error?.code], ['failed', 'server_error']);
});

test('another daemon goes on where this one was, with the same seed, also behind a torn line', async () => {
  listener.backend.script = hanging;
  const stream = await client.responses.create({ ...ASK, stream: true });
  const seen: Event[] = [];
  const cut = await failure(
    (async () => {
      for await (const event of stream) {
        seen.push(event);
        if (textOf(seen) === 'one two ') await listener.services.background.suspend();
      }
    })(),
  );
  assert.match(cut.message, /stopping/);
  const { id } = (seen[0] as OpenAI.Responses.ResponseCreatedEvent).response;
  appendFileSync(join(listener.responsesDir, `${id}.jsonl`), '{"events":[{"type":"text","text":"tor');

  const [before] = listener.backend.requests;
  listener.backend.script = counting;
  const next = new BackgroundResponses({
    store: listener.services.responses,
    route: (request, context) => listener.router.route(request, context),
    warn: (what) => assert.unreachable(what),
  });
  Object.assign(listener.services, { background: next });
  await next.recover();
  const last = Number(seen.at(-1)?.sequence_number);
  const rest = await follow(id, last);
  checkNumbers(rest, last + 1);
  assert.is(textOf([...seen, ...rest]), ALL);
  assert.is(listener.backend.requests.at(-1)?.continuation?.seed, before?.continuation?.seed);
  assert.is((await client.responses.retrieve(id)).output_text, ALL);
  checkNumbers(await follow(id));
});

test('a response is cancelled, and stays so', async () => {
  listener.backend.script = hanging;
  const { id } = await client.responses.create(ASK);
  const stream = await client.responses.retrieve(id, { stream: true });
  const seen: Event[] = [];
  for await (const event of stream) {
    seen.push(event);
    if (textOf(seen) === 'one two ' && event.type === 'response.output_text.delta') {
      assert.is((await client.responses.retrieve(id)).status, 'in_progress');
      assert.is((await client.responses.cancel(id)).status, 'cancelled');
    }
  }
  assert.is(String(seen.at(-1)?.type), 'response.cancelled');
  const { status, output_text: text } = await client.responses.retrieve(id);
  assert.equal([status, text], ['cancelled', 'one two ']);
  assert.is((await client.responses.cancel(id)).status, 'cancelled');
});

test('one that is deleted while it is answered leaves nothing', async () => {
  listener.backend.script = hanging;
  const { id } = await client.responses.create(ASK);
  await client.responses.delete(id);
  assert.is((await failure(client.responses.retrieve(id))).status, 404);
  assert.equal(readdirSync(listener.responsesDir), []);
});

test('too many at once are refused as busy', async () => {
  listener.backend.script = hanging;
  for (let count = 0; count < MOST_RUNNING; count += 1) await client.responses.create(ASK);
  const { status, message } = await failure(client.responses.create(ASK));
  assert.is(status, 429);
  assert.match(message, /64 background responses/);
});

test('only the key that made it reads, follows and cancels it', async () => {
  Object.assign(listener.world, { admits: 'local', key: 'mine' });
  const { id } = await client.responses.create(ASK);
  Object.assign(listener.world, { key: 'other' });
  for (const work of [() => follow(id), () => client.responses.cancel(id), () => client.responses.delete(id)]) {
    assert.is((await failure(work())).status, 404);
  }
});

test('what cannot be kept is refused by name', async () => {
  const refused = async (fields: object): Promise<unknown> =>
    (await failure(client.responses.create({ ...ASK, ...fields }))).param;
  assert.is(await refused({ store: false }), 'store');
  assert.is(await refused({ top_logprobs: 2 }), 'top_logprobs');
  assert.is(await refused({ mirostat: 2 }), 'mirostat');
  const { id } = await client.responses.create({ model: 'tiny', input: 'Hi' });
  assert.is((await failure(client.responses.retrieve(id, { stream: true }))).param, 'stream');
  assert.is((await failure(client.responses.retrieve(id, { starting_after: 3 }))).param, 'starting_after');
  assert.is((await failure(client.responses.cancel(id))).status, 400);
});

test('the journal is for its owner alone, and has no input twice', async () => {
  const { id } = await client.responses.create({ ...ASK, input: 'a very long prompt' });
  await follow(id);
  const file = join(listener.responsesDir, `${id}.jsonl`);
  if (process.platform !== 'win32') assert.is(statSync(file).mode & 0o777, 0o600);
  assert.is(readFileSync(file, 'utf8').split('a very long prompt').length, 2);
});

test.run();
