/** What counts for the circuit of a provider, and what others do while one request tries it; with real sockets. */
import { setImmediate } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { CloudBackend } from '../../src/backends/cloud/cloud-backend.ts';
import type { Provider } from '../../src/backends/cloud/provider.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { Router } from '../../src/routing/router.ts';
import { chunk, cloud, sayHello } from '../backends/cloud/cloud-support.ts';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { hello, ScriptedBackend } from '../http/scripted-backend.ts';
import { waitFor } from '../support/wait.ts';
import { collect, context, failure, REQUEST } from './support.ts';

interface World {
  upstream: Upstream;
  router: Router;
  /** Names of the providers that have admitted a request. */
  admitted: string[];
  backend(changes?: Partial<Provider>): void;
  /** Moves the clock of the process forward. */
  later(milliseconds: number): void;
}

const REFUSED = { ...REQUEST, route: 'provider:acme', sampling: { min_p: 0.1 } };
const ASKED = { ...REQUEST, route: 'provider:acme' };
const { now } = performance;

const test = suite<World>('circuits');
test.before.each(async (world) => {
  world.upstream = await startUpstream((turn) => turn.json(501, { error: { message: 'broken' } }));
  const backends = new Map<string, CloudBackend | ScriptedBackend>([['local', new ScriptedBackend(hello)]]);
  world.admitted = [];
  world.backend = (changes) => void backends.set('acme', cloud(world.upstream.url, changes).backend);
  world.router = new Router(backends, {
    policies: () => ({ quick: { candidates: ['acme/small', 'local'], fallback_on: ['unavailable'] } }),
    admit: async (name) => void world.admitted.push(name),
  });
  let shift = 0;
  world.later = (milliseconds) => {
    shift += milliseconds;
    performance.now = () => now.call(performance) + shift;
  };
});
test.after.each(async ({ upstream }) => {
  performance.now = now;
  await upstream.close();
});

const stateOf = ({ router }: World): unknown[] =>
  router.providerHealth().map(({ state, consecutive_failures }) => [state, consecutive_failures]);

test('a request that the provider was never sent neither opens nor closes its circuit', async (world) => {
  const { router, upstream, admitted, backend } = world;
  backend({ api: 'messages', kind: 'anthropic' });
  while (upstream.asked.length < 5) {
    await failure(router.route(ASKED, context()));
    await failure(router.route(REFUSED, context()));
    assert.equal(stateOf(world), [['unhealthy', upstream.asked.length]]);
  }
  assert.is(admitted.length, upstream.asked.length);
  assert.match((await failure(router.route(ASKED, context()))).message, /circuit open/);
});

test('deadlines that pass in our own queue do not open the circuit', async (world) => {
  const { router, upstream, admitted, backend, later } = world;
  backend({ concurrency: 1 });
  upstream.script(async (turn) => {
    await turn.event(chunk({ content: 'first' }));
  });
  const client = new AbortController();
  const first = router.route(ASKED, context(client.signal));
  await first.next();
  for (let n = 0; n < 6; n += 1) {
    const queued = failure(router.route({ ...ASKED, timeout_ms: 20 }, context()));
    await setImmediate();
    later(40_000);
    assert.is((await queued).code, 'TIMEOUT');
  }
  assert.equal(stateOf(world), [['unknown', 0]]);
  assert.equal([upstream.asked.length, admitted], [1, ['acme']]);
  await first.return();
});

test('the time in which a caller does not read is not silence of the provider', async (world) => {
  const { router, upstream, backend, later } = world;
  backend();
  upstream.script(async (turn) => {
    for (let n = 0; n < 1000; n += 1) await turn.event(chunk({ content: 'word '.repeat(1000) }));
  });
  for (let n = 0; n < 6; n += 1) {
    const deadline = new AbortController();
    const slow = router.route(ASKED, context(deadline.signal));
    while ((await slow.next()).value?.type !== 'text');
    later(40_000);
    deadline.abort(new SvcError('TIMEOUT', 'the answer was not complete'));
    assert.is((await failure(slow)).code, 'TIMEOUT');
  }
  assert.equal(stateOf(world), [['unknown', 0]]);
});

test('while one request tries the provider, the deadlines, aborts and fallbacks of others work', async (world) => {
  const { router, upstream, backend } = world;
  backend();
  for (let n = 0; n < 5; n += 1) await failure(router.route(ASKED, context()));
  upstream.script(() => undefined);
  const client = new AbortController();
  let trial: Promise<SvcError> | undefined;
  await waitFor('a request that tries the provider', async () => {
    const asked = upstream.asked.length;
    trial = failure(router.route(ASKED, context(client.signal)));
    await Promise.race([trial, waitFor('it to be sent', () => upstream.asked.length > asked)]);
    return upstream.asked.length > asked;
  });

  assert.is((await failure(router.route({ ...ASKED, timeout_ms: 20 }, context()))).code, 'TIMEOUT');
  const left = new AbortController();
  const leaving = failure(router.route(ASKED, context(left.signal)));
  await setImmediate();
  left.abort(new SvcError('CANCELLED', 'left'));
  assert.is((await leaving).code, 'CANCELLED');
  const [route] = await collect(router.route({ ...REQUEST, model: 'quick', timeout_ms: 500 }, context()));
  assert.is(route?.type === 'route' && route.route.chosen, 'local');
  assert.is(router.waiting, 1, 'the one that tries it');

  const waiting = failure(router.route(ASKED, context()));
  client.abort(new SvcError('CANCELLED', 'left'));
  assert.is((await trial)?.code, 'CANCELLED');
  assert.match((await waiting).message, /circuit open/);
  upstream.script(sayHello);
  await waitFor('the provider to be taken back', async () => {
    return (await collect(router.route(ASKED, context())).catch(() => [])).length > 0;
  });
});

test.run();
