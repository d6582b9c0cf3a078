/** What `/api/chat` and `/api/generate` send while nothing comes of the model. */
import { Ollama } from 'ollama';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import { makeGate, type Gate } from '../../support/gate.ts';
import { FINISH, START, startScripted, text, type ScriptedListener } from '../scripted.ts';

let listener: ScriptedListener;
let client: Ollama;
test.before(async () => {
  listener = await startScripted({ limits: { heartbeatMs: 1 } });
  client = new Ollama({ host: listener.url });
});
test.after(() => listener.stop());

/** The answer goes on when the gate opens. Without a heartbeat it fails, since the client waits for it. */
function haltWith(rest: () => AsyncGenerator<ReturnType<typeof text>>): Gate {
  const gate = makeGate();
  listener.backend.script = async function* () {
    yield START;
    await gate.opened;
    yield* rest();
    yield FINISH;
  };
  return gate;
}

async function* hi(): AsyncGenerator<ReturnType<typeof text>> {
  yield text('hi');
}

const messages = [{ role: 'user', content: 'x' }];

test('a client that waits for a chat gets empty pieces', async () => {
  const gate = haltWith(hi);
  const pieces: unknown[] = [];
  for await (const { done, message, model, created_at } of await client.chat({
    model: 'tiny',
    messages,
    stream: true,
  })) {
    assert.equal([model, Date.parse(String(created_at)) > 0], ['tiny', true]);
    pieces.push([message, done]);
    if (pieces.length === 3) gate.open();
  }
  const piece = (content: string, done = false): unknown => [{ role: 'assistant', content }, done];
  assert.equal(pieces.slice(0, 3), [piece(''), piece(''), piece('')]);
  assert.equal(pieces.slice(-2), [piece('hi'), piece('', true)]);
});

test('a client that waits for a text gets empty pieces', async () => {
  const gate = haltWith(hi);
  const pieces: unknown[] = [];
  for await (const { done, response } of await client.generate({ model: 'tiny', prompt: 'x', stream: true })) {
    pieces.push([response, done]);
    if (pieces.length === 3) gate.open();
  }
  assert.equal(pieces.slice(0, 3), [
    ['', false],
    ['', false],
    ['', false],
  ]);
  assert.equal(pieces.slice(-2), [
    ['hi', false],
    ['', true],
  ]);
});

test('an error after an empty piece is a line', async () => {
  const gate = haltWith(async function* () {
    yield* [];
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  });
  try {
    for await (const { message } of await client.chat({ model: 'tiny', messages, stream: true })) {
      assert.is(message.content, '');
      gate.open();
    }
    assert.unreachable();
  } catch (error) {
    assert.match((error as Error).message, /the engine is gone/);
  }
});

test.run();
