/** Background responses of a real daemon: they outlive their connection, their engine and the daemon. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { spawnDaemon } from '../../support/daemon.ts';
import { hold } from '../../support/hold.ts';
import { openAiClient } from '../../support/openai.ts';
import { endServing, serve, type Serving } from '../../support/serving.ts';
import { waitFor } from '../../support/wait.ts';
import { failure } from '../api-failure.ts';
import { checkEvents } from './event-order.ts';

type Params = OpenAI.Responses.ResponseCreateParamsNonStreaming;
type Event = OpenAI.Responses.ResponseStreamEvent;

/** Longer than what a machine computes before it is stopped. `seed`: svc has it, the type of the client does not. */
const LONG: Params = { model: 'plain', input: 'Tell me about llamas.', max_output_tokens: 3000, ...seeded(7) };
const SHORT: Params = { ...LONG, max_output_tokens: 12 };

function seeded(seed: number): object {
  // Without an end of the turn the answer is as long as it may be.
  return { seed, logit_bias: {}, temperature: 1 };
}

const test = suite<{ serving: Serving }>('background responses');
test.before(async (context) => {
  context.serving = await serve({ plain: 'tiny-llama', caller: 'tiny-qwen2' });
});
test.after(({ serving }) => endServing(serving));

const started = async ({ client }: Serving, params: Params): Promise<OpenAI.Responses.Response> =>
  await client.responses.create({ ...params, background: true });

async function ended({ client }: Serving, id: string): Promise<OpenAI.Responses.Response> {
  return await waitFor('the response to end', async () => {
    const response = await client.responses.retrieve(id);
    return ['queued', 'in_progress'].includes(response.status ?? '') ? null : response;
  });
}

async function eventsAfter({ client }: Serving, id: string, after: number): Promise<Event[]> {
  const events: Event[] = [];
  const query = { stream: true as const, ...(after < 0 ? {} : { starting_after: after }) };
  for await (const event of await client.responses.retrieve(id, query)) events.push(event);
  return events;
}

async function enginePid({ daemon }: Serving, model: string): Promise<number> {
  const { models } = await daemon.client.health();
  const pid = models.find(({ id }) => id === model)?.pid;
  assert.type(pid, 'number');
  return pid as number;
}

/** Starts a response with a stream, and reads it until it has text. */
async function begun({ client }: Serving, params: Params): Promise<{ id: string; events: Event[] }> {
  const stream = await client.responses.create({ ...params, background: true, stream: true });
  const events: Event[] = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  const [created] = events;
  assert.is(created?.type, 'response.created');
  return { id: (created as OpenAI.Responses.ResponseCreatedEvent).response.id, events };
}

/** What the same request gives in one go. */
async function wholeText({ client }: Serving, params: Params): Promise<string> {
  return (await client.responses.create(params)).output_text;
}

test('is answered without a connection, and read at any time from any point', async ({ serving }) => {
  const response = await started(serving, SHORT);
  assert.ok(['queued', 'in_progress'].includes(response.status ?? ''), response.status);
  assert.is(response.background, true);
  const done = await ended(serving, response.id);
  assert.is(done.output_text, await wholeText(serving, SHORT));
  assert.equal([done.id, done.background, done.created_at], [response.id, true, response.created_at]);

  const all = await eventsAfter(serving, response.id, -1);
  assert.equal(checkEvents(all).response.output, done.output);
  for (const after of [0, 1, 4, all.length - 2, all.length - 1, all.length + 5]) {
    assert.equal(await eventsAfter(serving, response.id, after), all.slice(after + 1));
  }
  const next = await serving.client.responses.create({ ...SHORT, previous_response_id: response.id });
  assert.is(next.previous_response_id, response.id);
  const items = await serving.client.responses.inputItems.list(response.id);
  assert.is(items.data.length, 1);
  // One that has ended stays as it is.
  const still = await serving.client.responses.cancel(response.id);
  assert.equal([still.status, still.output], [done.status, done.output]);
});

test('its journal is for the owner alone, and goes with the response', async ({ serving }) => {
  const { id } = await started(serving, SHORT);
  await ended(serving, id);
  const folder = join(serving.home.dir, 'state', 'responses', 'background');
  assert.ok(readdirSync(folder).includes(`${id}.jsonl`));
  if (process.platform !== 'win32') {
    assert.is(statSync(folder).mode & 0o777, 0o700);
    assert.is(statSync(join(folder, `${id}.jsonl`)).mode & 0o777, 0o600);
  }
  await serving.client.responses.delete(id);
  assert.not.ok(readdirSync(folder).includes(`${id}.jsonl`));
  assert.is((await failure(serving.client.responses.retrieve(id))).status, 404);
});

test('goes on when its reader leaves', async ({ serving }) => {
  const { id, events } = await begun(serving, LONG);
  const done = await ended(serving, id);
  assert.is(done.output_text, await wholeText(serving, LONG));
  checkEvents([...events, ...(await eventsAfter(serving, id, events.length - 1))]);
});

test('a killed engine costs nothing: no gap, no repeat, the same text', async ({ serving }) => {
  const { id, events } = await begun(serving, LONG);
  process.kill(await enginePid(serving, 'plain'), 'SIGKILL');
  events.push(...(await eventsAfter(serving, id, events.length - 1)));
  const { response } = checkEvents(events);
  assert.is((await ended(serving, id)).output_text, await wholeText(serving, LONG));
  assert.equal(response.output, (await ended(serving, id)).output);
});

test('a killed daemon costs nothing either', async (context) => {
  const { serving } = context;
  const expected = await wholeText(serving, LONG);
  const { id, events } = await begun(serving, LONG);
  serving.daemon.kill('SIGKILL');
  await serving.daemon.exit;
  const daemon = await spawnDaemon(serving.home).settled();
  context.serving = { ...serving, daemon, client: await openAiClient(daemon) };
  events.push(...(await eventsAfter(context.serving, id, events.length - 1)));
  const { response } = checkEvents(events);
  const done = await ended(context.serving, id);
  assert.is(done.output_text, expected);
  assert.equal(response.output, done.output);
  assert.equal([done.usage?.output_tokens, done.created_at], [3000, response.created_at]);
});

test('a daemon that stops in order leaves it to the next one', async (context) => {
  const { serving } = context;
  const { id, events } = await begun(serving, LONG);
  serving.daemon.kill('SIGTERM');
  assert.is((await serving.daemon.exit).code, 0);
  const daemon = await spawnDaemon(serving.home).settled();
  context.serving = { ...serving, daemon, client: await openAiClient(daemon) };
  events.push(...(await eventsAfter(context.serving, id, events.length - 1)));
  checkEvents(events);
  assert.is((await ended(context.serving, id)).status, 'incomplete');
});

test('a cancelled one ends, for its readers, too', async ({ serving }) => {
  const pid = await enginePid(serving, 'plain');
  const { id, events } = await begun(serving, LONG);
  const held = hold(pid);
  const rest = eventsAfter(serving, id, events.length - 1);
  const cancelled = await serving.client.responses.cancel(id);
  assert.is(cancelled.status, 'cancelled');
  held.release();
  assert.is(checkEvents([...events, ...(await rest)]).response.status, 'cancelled');
  const later = await serving.client.responses.retrieve(id);
  assert.equal([later.status, later.output], ['cancelled', cancelled.output]);
  await waitFor('the engine to be idle', async () => {
    const { models } = await serving.daemon.client.health();
    return models.every(({ active }) => active === 0);
  });
});

test('a call is told once', async ({ serving }) => {
  const params: Params = {
    model: 'caller',
    input: 'Will it rain?',
    tools: [{ type: 'function', name: 'forecast', strict: true, parameters: FORECAST }],
    tool_choice: 'required',
    max_output_tokens: 400,
    ...seeded(3),
  };
  const stream = await serving.client.responses.create({ ...params, background: true, stream: true });
  const events: Event[] = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type === 'response.output_item.added') break;
  }
  const { id } = (events[0] as OpenAI.Responses.ResponseCreatedEvent).response;
  process.kill(await enginePid(serving, 'caller'), 'SIGKILL');
  events.push(...(await eventsAfter(serving, id, events.length - 1)));
  const [call] = checkEvents(events).response.output;
  const whole = (await serving.client.responses.create(params)).output[0] as OpenAI.Responses.ResponseFunctionToolCall;
  assert.equal([call.name, call.arguments], [whole.name, whole.arguments]);
});

test('errors are those of the response, or of the request', async ({ serving }) => {
  const { id } = await started(serving, { ...SHORT, model: 'nothing' });
  const failed = await ended(serving, id);
  assert.is(failed.status, 'failed');
  assert.match(failed.error?.message ?? '', /nothing/);
  // The client throws the last event of such a stream.
  assert.match((await failure(eventsAfter(serving, id, -1))).message, /nothing/);

  const unstored = await failure(started(serving, { ...SHORT, store: false }));
  assert.equal([unstored.status, unstored.param], [400, 'store']);
  const plain = await serving.client.responses.create(SHORT);
  const stream = await failure(serving.client.responses.retrieve(plain.id, { stream: true }));
  assert.equal([stream.status, stream.param], [400, 'stream']);
  const notCancelled = await failure(serving.client.responses.cancel(plain.id));
  assert.is(notCancelled.status, 400);
});

const FORECAST = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Oslo'] }, note: { type: 'string', minLength: 60, maxLength: 200 } },
  required: ['city', 'note'],
  additionalProperties: false,
};

test.run();
