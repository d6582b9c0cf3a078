/** The daemon against a compromised engine, which may have read a hostile model file. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LocalBackend } from '../../src/backends/local/local-backend.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../src/protocol/generate.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { firstText } from '../support/first-text.ts';
import { watchGrowth } from '../support/memory.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';
import { ask, testWith, textOf } from './local-support.ts';

const MIB = 1024 * 1024;

function it(what: string, body: (local: FakeLocal) => Promise<void>): void {
  testWith(what, () => makeFakeLocal({ one: {} }), body);
}

const answer = (backend: LocalBackend, prompt: string): Promise<GenerateEvent[]> =>
  collect(backend.generate(ask(prompt, 'one'), context()));

for (const [prompt, what] of [
  ['flood', /continued an answer that it had to pause/],
  ['vectors', /sent vectors that were not requested/],
  ['lie', /sent a damaged frame/],
] as const) {
  it(`an engine that violates the protocol is killed: ${prompt}`, async ({ backend, log, starts }) => {
    const events = backend.generate(ask(prompt, 'one'), context());
    // A consumer that reads nothing after the first text. Before it, a request is sent again to the next engine, and its
    // consumer, who reads all, may keep up with a flood for ever.
    const early = await firstText(events).then(
      () => null,
      (error: unknown) => error as SvcError,
    );
    const ended = await waitFor('its end', () => log.find(({ message }) => message === 'engine ended'));
    assert.match(String(ended.fields['reason']), what);
    assert.is((early ?? (await failure(collect(events)))).code, 'ENGINE_CRASHED');
    assert.is(textOf(await answer(backend, 'say 2')), 'word word ');
    assert.ok((await starts('one')).length >= 2);
  });
}

for (const [prompt, what] of [
  ['listed', /sent tokens that were not requested/],
  ['alternate', /continued an answer that it had to pause|sent more than the answer can have/],
  ['endless text', /sent more than the answer can have/],
  ['nested', /sent a damaged frame/],
  ['many', /sent a damaged frame/],
  ['loaded again', /reported a load that was not requested/],
] as const) {
  it(`an engine cannot fill the daemon's memory, nor block it: ${prompt}`, async ({ backend, log }) => {
    const growth = watchGrowth(512 * MIB);
    const used = cpuMs();
    // A consumer that reads all, and keeps nothing.
    const reading = (async (): Promise<void> => {
      for await (const _ of backend.generate({ ...ask(prompt, 'one'), max_tokens: 10 }, context()));
    })();
    const error = await failure(reading);
    assert.is(error.code, 'ENGINE_CRASHED');
    const ended = await waitFor('its end', () => log.find(({ message }) => message === 'engine ended'));
    assert.match(String(ended.fields['reason']), what);
    const spent = cpuMs() - used;
    assert.ok(spent < 10_000, `${String(spent / 1000)} s of processor time`);
    const grown = (await growth()) / MIB;
    assert.ok(grown < 512, `${String(grown)} MiB`);
    assert.is(textOf(await answer(backend, 'say 2')), 'word word ');
  });
}

it('the log output of an engine is bounded', async ({ backend, log }) => {
  const lines = (): number => log.filter(({ message }) => message === 'engine log').length;
  await waitFor('the word that lines were dropped', async () => {
    for await (const _ of backend.generate(ask('chatter', 'one'), context())) break;
    // The next line that passes the limit reports the dropped ones.
    return log.some(({ message }) => message === 'rate limit: lines of the engine log were dropped');
  });
  assert.ok(lines() > 0 && lines() < 20_000, String(lines()));
});

test.run();
