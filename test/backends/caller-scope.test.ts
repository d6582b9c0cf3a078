/** A caller below scope admin may not shorten how long a model stays loaded, nor change its context length. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Caller } from '../../src/protocol/caller.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import { collect, context } from './conformance.ts';
import { makeFakeLocal, type FakeLocal } from './fake-local.ts';

const GUEST: Caller = { kind: 'key', name: 'guest', address: '10.0.0.1', scope: 'inference' };
const OWNER: Caller = { kind: 'key', name: 'owner', address: '10.0.0.1', scope: 'admin' };

let local: FakeLocal;
test.before.each(async () => {
  const plain = { context: 1000 };
  local = await makeFakeLocal({ main: plain, other: plain }, { context_length: 1000 }, 'main');
});
test.after.each(() => local.dispose());

async function ask(caller: Caller, request: Partial<GenerateRequest>): Promise<void> {
  const whole = { messages: [{ role: 'user' as const, content: 'say 1' }], sampling: {}, stop: [], ...request };
  await collect(local.backend.generate(whole, { ...context(), caller }));
}

const expiryOf = async (model: string): Promise<string | null | undefined> =>
  (await local.backend.models()).find(({ id }) => id === model)?.loaded?.expires_at;

test('below admin, keep_alive may lengthen how long a model stays, not shorten it', async () => {
  await ask(GUEST, { model: 'main', keep_alive_seconds: 0 });
  assert.is(await expiryOf('main'), null, 'the default model stays');
  await ask(GUEST, { model: 'other' });
  const usual = Date.parse((await expiryOf('other')) ?? '');
  await ask(GUEST, { model: 'other', keep_alive_seconds: 0 });
  assert.ok(Date.parse((await expiryOf('other')) ?? '') >= usual, 'the longer keep_alive still holds');
  await ask(GUEST, { model: 'other', keep_alive_seconds: 3000 });
  assert.ok(Date.parse((await expiryOf('other')) ?? '') > usual + 2_000_000);
  await ask(GUEST, { model: 'other', keep_alive_seconds: -1 });
  assert.is(await expiryOf('other'), null);
  for await (const _ of local.backend.load('other', context().signal, { keep_alive_seconds: -1 }));
  await ask(GUEST, { model: 'other', keep_alive_seconds: 1 });
  assert.is(await expiryOf('other'), null, 'loaded to stay');
  assert.is((await local.starts('main')).length + (await local.starts('other')).length, 2, 'nothing was unloaded');

  await ask(OWNER, { model: 'other', keep_alive_seconds: 1000 });
  assert.ok((await expiryOf('other')) !== null, 'admin may shorten');
});

test('below admin, context_length cannot recreate the context', async () => {
  await ask(GUEST, { model: 'main', context_length: 1000 });
  try {
    await ask(GUEST, { model: 'main', context_length: 2000 });
    assert.unreachable('it was not refused');
  } catch (error) {
    assert.instance(error, SvcError);
    assert.equal([(error as SvcError).code, (error as SvcError).param], ['FORBIDDEN', 'context_length']);
    assert.match((error as SvcError).message, /larger than the 1000 tokens that main is loaded with/);
  }
  await ask(GUEST, { model: 'main' });
  assert.is((await local.starts('main')).length, 1);
  await ask(OWNER, { model: 'main', context_length: 2000 });
  assert.is((await local.starts('main')).length, 2, 'admin may');
});

test.run();
