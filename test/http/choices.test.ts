/** `n`: several answers to one prompt. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/protocol/errors.ts';
import { makeGate } from '../support/gate.ts';
import { ask, type Answer } from './ask.ts';
import { aborted, FINISH, START, startScripted, text, type Script, type ScriptedListener } from './scripted.ts';

interface Choice {
  readonly index: number;
  readonly delta: { readonly content?: string };
  readonly message: { readonly content: string };
  readonly finish_reason: string | null;
}
interface Body {
  readonly choices: readonly Choice[];
  readonly usage?: unknown;
  readonly error?: { readonly code: string };
}

const USAGE = { prompt_tokens: 7, completion_tokens: 6, total_tokens: 13, prompt_tokens_details: { cached_tokens: 3 } };

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());
test.before.each(() => {
  listener.backend.requests.length = 0;
});

const chat = (fields: object): Promise<Answer> =>
  ask(listener, '/v1/chat/completions', { body: { messages: [{ role: 'user', content: 'hi' }], n: 3, ...fields } });

function chunks({ text: body }: Answer): Body[] {
  return body
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)) as Body);
}

/** Answers with the seed. */
const tellSeed: Script = async function* ({ sampling }) {
  yield START;
  yield text('seed ');
  yield text(String(sampling.seed));
  yield FINISH;
};

/** `script` for the request with seed 1, and one that waits until it is aborted for the others. */
function failing(script: Script): { readonly script: Script; readonly reasons: unknown[] } {
  const reasons: unknown[] = [];
  const waits: Script = async function* (_request, { signal }) {
    yield START;
    const reason = await aborted(signal);
    reasons.push(reason);
    throw reason;
  };
  return { script: (request, context) => (request.sampling.seed === 1 ? script : waits)(request, context), reasons };
}

test('each has its index and a seed of its own; the prompt counts once', async () => {
  listener.backend.script = tellSeed;
  const { choices, usage } = (await chat({ seed: 0xffff_fffe })).json() as Body;
  assert.equal(
    choices.map(({ index, message, finish_reason }) => [index, message.content, finish_reason]),
    [
      [0, 'seed 4294967294', 'stop'],
      [1, 'seed 4294967295', 'stop'],
      [2, 'seed 0', 'stop'],
    ],
  );
  assert.equal(usage, USAGE);
});

test('without a seed each is random', async () => {
  listener.backend.script = tellSeed;
  await chat({});
  assert.equal(
    listener.backend.requests.map(({ sampling }) => sampling.seed),
    [undefined, undefined, undefined],
  );
});

test('streamed side by side, each to its own end, then the usage of all', async () => {
  const gate = makeGate();
  // The first choice goes on when the last one has ended.
  listener.backend.script = async function* (request, context) {
    yield START;
    yield text('seed ');
    if (request.sampling.seed === 1) await gate.opened;
    yield text(String(request.sampling.seed));
    yield FINISH;
    if (request.sampling.seed === 3) gate.open();
    context.signal.throwIfAborted();
  };
  const answer = await chat({ seed: 1, stream: true, stream_options: { include_usage: true } });
  assert.ok(answer.text.endsWith('data: [DONE]\n\n'));
  const all = chunks(answer);
  assert.equal(all.pop()?.usage, USAGE);
  const texts = new Map<number, string>();
  const ended: number[] = [];
  for (const { choices } of all) {
    const [{ index, delta, finish_reason: reason }] = choices as [Choice];
    assert.not.ok(ended.includes(index), 'nothing follows the end of a choice');
    texts.set(index, (texts.get(index) ?? '') + (delta.content ?? ''));
    if (reason !== null) ended.push(index);
  }
  assert.equal([...texts].sort(), [
    [0, 'seed 1'],
    [1, 'seed 2'],
    [2, 'seed 3'],
  ]);
  assert.is(ended.at(-1), 0);
});

test('one that fails before any text fails the request, and ends the others', async () => {
  for (const stream of [false, true]) {
    const { script, reasons } = failing(async function* () {
      yield START;
      throw new SvcError('BUSY', 'too many requests');
    });
    listener.backend.script = script;
    const answer = await chat({ seed: 0, stream });
    assert.is(answer.status, 429);
    assert.is((answer.json() as Body).error?.code, 'rate_limit_exceeded');
    assert.equal(
      reasons.map((reason) => (reason as SvcError).code),
      ['CANCELLED', 'CANCELLED'],
    );
  }
});

test('one that fails after its text ends the stream with the error', async () => {
  const { script, reasons } = failing(async function* () {
    yield START;
    yield text('half');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  });
  listener.backend.script = script;
  const answer = await chat({ seed: 0, stream: true });
  assert.not.ok(answer.complete);
  assert.is(chunks(answer).at(-1)?.error?.code, 'engine_crashed');
  assert.is(reasons.length, 2);
});

test.run();
