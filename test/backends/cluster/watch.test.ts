/** How long the endpoints of a cluster are probed. */
import { setImmediate } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import type { CloudBackend } from '../../../src/backends/cloud/cloud-backend.ts';
import { Member } from '../../../src/backends/cloud/cluster/member.ts';
import type { Probe } from '../../../src/backends/cloud/cluster/probe.ts';
import { Watch } from '../../../src/backends/cloud/cluster/watch.ts';
import { CONTROL_CALLER } from '../../../src/protocol/caller.ts';

/** A clock that the test moves: timers run when it says so. */
interface Context {
  now: number;
  timers: (() => void)[];
  /** Number of probes that a minute brings. */
  minute(): Promise<number>;
  probes: number;
  member: Member;
}

const test = suite<Context>('watch');
const real = { now: performance.now.bind(performance), setTimeout: globalThis.setTimeout };
test.before.each((context) => {
  context.now = 0;
  context.timers = [];
  context.probes = 0;
  performance.now = () => context.now;
  globalThis.setTimeout = ((run: () => void) => {
    context.timers.push(run);
    return { unref: () => null };
  }) as unknown as typeof setTimeout;
  context.minute = async () => {
    const before = context.probes;
    for (const end = context.now + 60_000; context.now < end; context.now += 400) {
      for (const run of context.timers.splice(0)) run();
      await setImmediate();
    }
    return context.probes - before;
  };
  const probe: Pick<Probe, 'vital' | 'requests'> = {
    vital: () => {
      context.probes += 1;
      return Promise.resolve('well');
    },
    // Those of other clients.
    requests: () => Promise.resolve(7),
  };
  const notAsked: unknown = null;
  context.member = new Member('http://one', notAsked as CloudBackend, probe as Probe);
});
test.after.each(() => {
  performance.now = real.now;
  globalThis.setTimeout = real.setTimeout;
});

test('probing ends after the last use, although others keep the endpoint busy', async (context) => {
  new Watch([context.member]).wake();
  assert.ok((await context.minute()) > 50);
  assert.is(context.member.load, 7);
  assert.is(await context.minute(), 0);
});

test('probing goes on while a request of this daemon runs', async (context) => {
  const { member } = context;
  async function* ask(): AsyncGenerator<GenerateEvent, void, undefined> {
    yield await Promise.resolve({} as GenerateEvent);
  }
  const signal = new AbortController().signal;
  const answer = await member.begin(ask, { traceId: 'trace', caller: CONTROL_CALLER, signal, arrivedAt: 0 });
  new Watch([member]).wake();
  await context.minute();
  assert.ok((await context.minute()) > 100);
  for await (const event of answer) assert.ok(event);
  await context.minute();
  assert.is(await context.minute(), 0);
});

test.run();
