/** Prompts that crash their engine: what other requests notice of them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { firstText } from '../support/first-text.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, testWith, textOf } from './local-support.ts';

function it(what: string, body: (local: FakeLocal) => Promise<void>): void {
  testWith(what, () => makeFakeLocal({ one: {} }), body);
}

const answer = (backend: LocalBackend, prompt: string): Promise<GenerateEvent[]> =>
  collect(backend.generate(ask(prompt, 'one'), context()));

/** Returns the code of the error with which the events end; null: none. */
async function refusalOf(events: AsyncIterable<unknown>): Promise<string | null> {
  try {
    for await (const _ of events);
    return null;
  } catch (error) {
    return SvcError.from(error).code;
  }
}

it('a prompt that kills its engine twice disturbs other answers only once', async ({ backend, starts }) => {
  // Kills its engine both times. The other requests have no text yet, or arrive while this one is retried.
  const poison = failure(answer(backend, 'poison'));
  const beside = Array.from({ length: 4 }, () => answer(backend, 'shy 2'));
  await waitFor('the second start', async () => (await starts('one')).length === 2);
  const later = Array.from({ length: 4 }, () => answer(backend, 'say 100'));
  assert.is((await poison).code, 'ENGINE_CRASHED');
  for (const events of await Promise.all([...beside, ...later])) assert.is(events.at(-1)?.type, 'finish');
  assert.is((await starts('one')).length, 3);
});

for (const [prompt, when] of [
  ['crash after 3', 'after its first text'],
  ['crash after 0', 'before its first text'],
] as const) {
  it(`a prompt that kills its engine again and again ${when} has to wait, and others do not`, async ({
    backend,
    starts,
  }) => {
    let error = await failure(answer(backend, prompt));
    for (let times = 1; times < 6 && error.code === 'ENGINE_CRASHED'; times++) {
      error = await failure(answer(backend, prompt));
    }
    assert.is(error.code, 'NOT_READY');
    assert.match(error.message, /^this request has ended the engine of one \d times/);
    const before = (await starts('one')).length;
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
    assert.is((await starts('one')).length, before + 1);
  });
}

it('many prompts that kill an engine which answers others keep nobody waiting', async ({ backend }) => {
  for (let poison = 0; poison < 6; poison++) {
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
    const error = await failure(answer(backend, `crash after 0, the ${'x'.repeat(poison)} time`));
    assert.is(error.code, 'ENGINE_CRASHED');
  }
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
});

it('an engine that crashes under every prompt is left alone', async ({ backend, starts }) => {
  const codes: string[] = [];
  for (let each = 0; each < 8; each++) {
    codes.push((await failure(answer(backend, `crash after 0, ${'x'.repeat(each)}`))).code);
  }
  assert.is(codes.at(-1), 'NOT_READY', codes.join());
  assert.ok((await starts('one')).length < 2 * codes.length);
});

it('prompts whose clients leave before they kill an engine keep nobody waiting', async ({ backend, starts }) => {
  for (let poison = 0; poison < 6; poison++) {
    assert.is(textOf(await answer(backend, 'say 1')), 'word ');
    const leaving = new AbortController();
    const request = { ...ask('poison', 'one'), sampling: { seed: poison } };
    const events = backend.generate(request, context(leaving.signal));
    assert.is((await events.next()).value?.type, 'start');
    leaving.abort(new SvcError('CANCELLED', 'the client has left'));
    assert.is((await failure(events.next())).code, 'CANCELLED');
    const [pid = 0] = backend.pids();
    process.kill(pid, 'SIGKILL');
    await waitFor('its end', () => !backend.pids().includes(pid));
  }
  assert.is(textOf(await answer(backend, 'say 1')), 'word ');
  assert.is((await starts('one')).length, 7);
});

testWith(
  'a request whose preparation never ends is the one to blame, not another that was in the engine',
  () => makeFakeLocal({ one: {} }, { stall_timeout_seconds: 0.8 }),
  async ({ backend }) => {
    const speaking = backend.generate(ask('endless', 'one'), context());
    await firstText(speaking);
    assert.is((await failure(answer(backend, 'prepare'))).code, 'INVALID_REQUEST');
    await failure(collect(speaking));
    // Now it is tried alone, so that others begin only after its end.
    const ends: string[] = [];
    const note = (what: string) => (): void => void ends.push(what);
    await Promise.all([
      failure(answer(backend, 'prepare')).then(note('prepare')),
      answer(backend, 'say 1').then(note('say 1')),
    ]);
    assert.equal(ends, ['prepare', 'say 1']);
  },
);

it('counting tokens does not show that an engine works', async ({ backend, starts }) => {
  const codes: string[] = [];
  for (let each = 0; each < 8; each++) {
    const prompt = `crash after 0, ${'x'.repeat(each)}`;
    const refusal = await refusalOf(backend.tokenize(ask(prompt, 'one'), context()));
    codes.push(refusal ?? (await failure(answer(backend, prompt))).code);
  }
  assert.is(codes.at(-1), 'NOT_READY', codes.join());
  assert.ok((await starts('one')).length < 2 * codes.length);
});

test.run();
