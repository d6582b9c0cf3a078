/** Background responses of a real daemon: its engine is killed, it is killed itself, it is stopped. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import { Client } from '../../../src/client/client.ts';
import { join } from 'node:path';
import { spawnDaemon, type DaemonProcess } from '../../support/daemon.ts';
import { makeHome, type Home } from '../../support/home.ts';
import { modelPath } from '../../support/native-engine.ts';
import { openAiClient } from '../../support/openai.ts';
import { svc } from '../../support/svc.ts';

let home: Home;
let daemon: DaemonProcess;
let client: OpenAI;

test.before(async () => {
  home = await makeHome();
  assert.is((await svc(['model', 'add', modelPath('tiny-llama'), '--name', 'plain'], { home })).code, 0);
  await start();
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

async function start(): Promise<void> {
  daemon = await spawnDaemon(home).settled();
  client = await openAiClient(daemon);
}

type Event = OpenAI.Responses.ResponseStreamEvent;

const ASK = {
  model: 'plain',
  input: 'Tell me about llamas.',
  background: true,
  max_output_tokens: 400,
  ...{ seed: 7, frequency_penalty: 0.5 },
} as const;

function textOf(events: readonly Event[]): string {
  return events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
}

/** Reads a new response until `deltas` pieces of text have come, and then what the end of the daemon leaves of it. */
async function begin(deltas: number, then: () => Promise<unknown>): Promise<{ id: string; seen: Event[] }> {
  const seen: Event[] = [];
  let count = 0;
  try {
    for await (const event of await client.responses.create({ ...ASK, stream: true })) {
      seen.push(event);
      if (event.type === 'response.output_text.delta' && ++count === deltas) await then();
    }
  } catch {
    // The connection ends with the daemon.
  }
  const [first] = seen as [OpenAI.Responses.ResponseCreatedEvent];
  return { id: first.response.id, seen };
}

async function follow(id: string, after: number): Promise<Event[]> {
  const events: Event[] = [];
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: after })) {
    events.push(event);
  }
  return events;
}

/** All events are there once, and their text is that of the response. */
async function check(id: string, events: readonly Event[]): Promise<void> {
  assert.equal(
    events.map(({ sequence_number: number }) => number),
    events.map((_, index) => index),
  );
  const response = await client.responses.retrieve(id);
  assert.is(response.status, 'incomplete');
  assert.is(response.usage?.output_tokens, ASK.max_output_tokens);
  assert.is(response.output_text, textOf(events));
  assert.is(response.output_text, await undisturbed());
}

let expected: string | undefined;
async function undisturbed(): Promise<string> {
  expected ??= textOf((await begin(0, () => Promise.resolve())).seen);
  return expected;
}

test('its engine is killed', async () => {
  await undisturbed();
  const { id, seen } = await begin(5, async () => {
    const { models } = await new Client(join(home.dir, 'run', 'svc.sock')).status();
    process.kill(models.find(({ id: name }) => name === 'plain')?.pid ?? 0, 'SIGKILL');
  });
  await check(id, seen);
});

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test(`the daemon is ended by ${signal}`, async () => {
    await undisturbed();
    const { id, seen } = await begin(5, async () => {
      daemon.kill(signal);
      await daemon.exit;
    });
    await start();
    const last = Number(seen.at(-1)?.sequence_number);
    const rest = await follow(id, last);
    assert.ok(rest.length > 0);
    await check(id, [...seen, ...rest]);
  });
}

test.run();
