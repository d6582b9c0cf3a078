/** Background responses with a scripted router: what is tried again, what ends them, what the next daemon finds. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CONTROL_CALLER } from '../../src/protocol/caller.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../src/protocol/generate.ts';
import { NO_TRACES } from '../../src/protocol/traces/span.ts';
import { BackgroundResponses } from '../../src/responses/background/background.ts';
import type { BackgroundRun, Route } from '../../src/responses/background/run.ts';
import { ResponseStore } from '../../src/responses/response-store.ts';
import { Router } from '../../src/routing/router.ts';
import { ScriptedBackend, type Script } from '../http/scripted.ts';
import { waitFor } from '../support/wait.ts';

type Step = RouteEvent | GenerateEvent | SvcError | 'wait';

interface Scripted {
  readonly responses: BackgroundResponses;
  readonly store: ResponseStore;
  readonly requests: GenerateRequest[];
  readonly failures: unknown[];
}

const ID = `resp_${'0'.repeat(32)}`;
const ASKED = {
  id: ID,
  owner: 'control',
  caller: CONTROL_CALLER,
  body: { input: 'Hello', stream: true },
  items: [{ item: { type: 'message', role: 'user', content: 'Hello' }, place: 'input' }] as const,
};
const start = (provider: string): GenerateEvent => ({ type: 'start', model: 'm', provider });
const text = (content: string, ...tokens: number[]): GenerateEvent => ({ type: 'text', text: content, tokens });
const finish: GenerateEvent = {
  type: 'finish',
  reason: 'stop',
  usage: { input_tokens: 1, output_tokens: 2, cached_tokens: 0 },
  timings: { queue_ms: 0, ttft_ms: 0, total_ms: 0, tokens_per_second: null },
};
const soon = { retryAfterSeconds: 0.001 };
const crash = new SvcError('ENGINE_CRASHED', 'the engine crashed', soon);

const test = suite<{ dir: string; script(...attempts: Step[][]): Scripted }>('background');
test.before.each((context) => {
  context.dir = join(mkdtempSync(join(tmpdir(), 'svc-background-')), 'responses');
  context.script = (...attempts) => scripted(context.dir, attempts);
});
test.after.each(({ dir }) => rmSync(join(dir, '..'), { recursive: true, force: true }));

/** Each request gets the next of `attempts`; `wait` lasts until it is aborted. `through` wraps the route. */
function scripted(
  dir: string,
  attempts: Step[][],
  { through = (route: Route): Route => route, mostBytes = 1e9 } = {},
): Scripted {
  const requests: GenerateRequest[] = [];
  const failures: unknown[] = [];
  const onFailure = (error: unknown): void => void failures.push(error);
  const store = new ResponseStore({ dir, enabled: true, keepMs: 1e9, mostBytes, onFailure });
  const responses = new BackgroundResponses({
    store,
    tracer: NO_TRACES,
    onFailure,
    route: through(async function* (request, { signal }) {
      requests.push(request);
      for (const step of attempts.shift() ?? [new SvcError('INTERNAL', 'one request too many')]) {
        if (step instanceof SvcError) throw step;
        if (step !== 'wait') yield step;
        else await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      }
    }),
  });
  return { responses, store, requests, failures };
}

async function answered({ responses, store }: Scripted, asked: object = {}): Promise<{ status: string; text: string }> {
  const run = await responses.start({ ...ASKED, ...asked });
  await run.finished;
  return await stored({ store });
}

async function stored({ store }: Pick<Scripted, 'store'>): Promise<{ status: string; text: string }> {
  const { status, output } = (await store.find(ID, 'control'))!.response;
  const parts = output.flatMap((item) => (item.type === 'message' ? item.content : []));
  return { status, text: parts.map((part) => part.text).join('') };
}

async function eventsOf(run: BackgroundRun, count = Infinity): Promise<string[]> {
  const events: string[] = [];
  for await (const ready of run.eventsAfter(-1, new AbortController().signal)) {
    if (events.push(...ready) >= count) break;
  }
  return events.slice(0, count);
}

/** Events of the response that has ended, after the one with this sequence number. */
async function endedEvents({ responses }: Scripted, sequence = -1): Promise<string[]> {
  return [...(await responses.eventsAfter(sequence, ID, 'control'))!].flat();
}

test('a local answer that is cut off goes on with its tokens, at the same model', async ({ script }) => {
  const world = script(
    [start('local'), text('one ', 1), text('two ', 2, 3), crash],
    [start('local'), text('one two three', 1, 2, 3, 4), crash],
    [start('local'), text('one two three four', 1, 2, 3, 4, 5), finish],
  );
  assert.equal(await answered(world), { status: 'completed', text: 'one two three four' });
  assert.equal(
    world.requests.map(({ continuation, model, route }) => [continuation?.tokens, model, route]),
    [
      [[], undefined, undefined],
      [[1, 2, 3], 'm', 'local'],
      [[1, 2, 3, 4], 'm', 'local'],
    ],
  );
  assert.is(new Set(world.requests.map(({ continuation }) => continuation?.seed)).size, 1);
});

test('the key of a policy goes on at the model that it chose, within its quota', async ({ dir }) => {
  const attempts = [
    [start('local'), text('one ', 1), crash],
    [start('local'), text('one two', 1, 2), finish],
  ];
  const limits = { models: ['fast'], tokens_per_day: 9 };
  const quotas: unknown[] = [];
  const through = (script: Route): Route => {
    const router = new Router(new Map([['local', new ScriptedBackend(script as Script)]]), {
      policies: () => ({ fast: { candidates: ['local/m'], fallback_on: [] } }),
      find: () => Promise.resolve({ id: 'm', aliases: [] }),
      admitCaller: ({ name, limits: { tokens_per_day } = {} }) =>
        Promise.resolve(void quotas.push([name, tokens_per_day])),
    });
    return router.route.bind(router);
  };
  const world = scripted(dir, attempts, { through });
  const caller = { kind: 'key', name: 'app', address: null, scope: 'local', limits } as const;
  const asked = { caller, body: { ...ASKED.body, model: 'fast' } };
  assert.equal(await answered(world, asked), { status: 'completed', text: 'one two' });
  const quota = ['app', limits.tokens_per_day];
  assert.equal(quotas, [quota, quota]);
});

test('an answer of a provider is asked for again only if none of it was told', async ({ script }) => {
  const lost = new SvcError('PROVIDER_FAILED', 'the connection was lost', soon);
  assert.equal(await answered(script([lost], [start('cloud'), text('all'), finish])), {
    status: 'completed',
    text: 'all',
  });
});

test('else it fails, with what was told', async ({ script }) => {
  const lost = new SvcError('PROVIDER_FAILED', 'the connection was lost', soon);
  const world = script([start('cloud'), text('half'), lost]);
  assert.equal(await answered(world), { status: 'failed', text: 'half' });
  assert.is(world.requests.length, 1);
});

test('a provider that is busy in the middle of its answer ends it at once', async ({ script }) => {
  for (const code of ['BUSY', 'NOT_READY'] as const) {
    const later = new SvcError(code, 'the provider is overloaded', { retryAfterSeconds: 3600 });
    const world = script([start('cloud'), text('half'), later]);
    const run = await world.responses.start(ASKED);
    try {
      await waitFor('its end', () => run.response.status === 'failed');
    } finally {
      await run.cancel();
    }
    assert.equal(await stored(world), { status: 'failed', text: 'half' });
    assert.match(JSON.stringify(run.response['error']), /the provider is overloaded/);
    await world.store.remove(ID, 'control');
  }
});

test('an answer of a provider that the last daemon had begun fails at the next', async ({ script }) => {
  const parts: readonly GenerateEvent[] = [
    text('half'),
    { type: 'reasoning', text: 'hm' },
    { type: 'tool_call', index: 0, id: 'a', name: 'look', arguments: '{' },
  ];
  for (const part of parts) {
    const before = script([start('cloud'), part, 'wait']);
    await eventsOf(await before.responses.start(ASKED), 4);
    await before.responses.close();
    const after = script([start('cloud'), text('another whole'), finish]);
    await after.responses.open();
    await (
      await after.responses.running(ID, 'control')
    )?.finished;
    assert.equal(await stored(after), { status: 'failed', text: part.type === 'text' ? 'half' : '' });
    const { response } = (await after.store.find(ID, 'control'))!;
    assert.match(
      JSON.stringify(response['error']),
      /the answer of cloud was interrupted, and providers cannot continue an answer/,
    );
    assert.is(after.requests.length, 0);
    await after.store.remove(ID, 'control');
  }
});

test('one of which nothing was told is asked for again by the next daemon', async ({ script }) => {
  const before = script([start('cloud'), 'wait']);
  await eventsOf(await before.responses.start(ASKED), 2);
  await before.responses.close();
  const after = script([start('cloud'), text('all'), finish]);
  await after.responses.open();
  await (
    await after.responses.running(ID, 'control')
  )?.finished;
  assert.equal(await stored(after), { status: 'completed', text: 'all' });
});

test('a busy daemon is waited for', async ({ script }) => {
  const busy = (): Step[] => [new SvcError('BUSY', 'too many requests', soon)];
  const world = script(...Array.from({ length: 20 }, busy), [start('local'), text('late', 1), finish]);
  assert.equal(await answered(world), { status: 'completed', text: 'late' });
});

test('a quota that is used up ends it', async ({ script }) => {
  const usedUp = new SvcError('BUSY', 'used up', { retryAfterSeconds: 30 * 86_400, retryable: false });
  const world = script([usedUp], [start('local'), text('late', 1), finish]);
  assert.equal(await answered(world), { status: 'failed', text: '' });
  assert.is(world.requests.length, 1);
});

test('a pause is no longer than a timer can be', async ({ script }) => {
  const month = new SvcError('BUSY', 'too many requests', { retryAfterSeconds: 30 * 86_400 });
  const world = script([month], [start('local'), text('early', 1), finish]);
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const run = await world.responses.start(ASKED);
  await waitFor('the first attempt', () => world.requests.length === 1);
  // By then the pause has begun.
  await new Promise((resolve) => setImmediate(resolve));
  await run.cancel();
  process.off('warning', onWarning);
  assert.equal([(await stored(world)).status, world.requests.length, warnings], ['cancelled', 1, []]);
});

test('attempts that bring nothing are not made without end', async ({ script }) => {
  const world = script(...Array.from({ length: 20 }, () => [start('local'), crash]));
  assert.is((await answered(world)).status, 'failed');
  assert.is(world.requests.length, 5);
});

/** As for a key with a quota while the disk is full. */
const uncounted = new SvcError('CANNOT_WRITE', 'its usage cannot be counted', soon);

test('a disk that is full for a moment does not end it', async ({ script }) => {
  const world = script([uncounted], [uncounted], [start('local'), text('late', 1), finish]);
  assert.equal(await answered(world), { status: 'completed', text: 'late' });
});

test('a disk that stays full ends it', async ({ script }) => {
  const world = script(...Array.from({ length: 20 }, () => [uncounted]));
  assert.is((await answered(world)).status, 'failed');
  assert.is(world.requests.length, 5);
});

test('another model does not go on with an answer', async ({ script }) => {
  const other: GenerateEvent = { type: 'start', model: 'other', provider: 'local' };
  const world = script([start('local'), text('one ', 1), crash], [other, text('eins ', 9), finish]);
  assert.equal(await answered(world), { status: 'failed', text: 'one ' });
});

test('the next daemon takes up what was left, and tells its events again', async ({ script, dir }) => {
  const before = script([start('local'), text('one ', 1), 'wait']);
  const run = await before.responses.start(ASKED);
  const told = await eventsOf(run, 4);
  await before.responses.close();
  let error: unknown;
  await eventsOf(run).catch((thrown: unknown) => (error = thrown));
  assert.is((error as SvcError).code, 'NOT_READY');

  // A line that was cut off while it was written.
  appendFileSync(join(dir, 'background', `${ID}.jsonl`), '{"at": 1, "event": {"type": "te');
  const after = script([start('local'), text('one two', 1, 2), finish]);
  await after.responses.open();
  const again = (await after.responses.running(ID, 'control'))!;
  assert.is(await after.responses.running(ID, 'key:other'), null);
  const all = await eventsOf(again);
  assert.equal(all.slice(0, told.length), told);
  await again.finished;
  assert.equal(await stored(after), { status: 'completed', text: 'one two' });
  assert.equal(after.requests[0]?.continuation?.tokens, [1]);
  assert.equal(await endedEvents(after), all);
  assert.is(await after.responses.eventsAfter(-1, ID, 'key:other'), null);
});

test('a reader gets small events together and large ones alone, each made when it is read', async ({ script }) => {
  const small = Array.from({ length: 100 }, (_, index) => text('x', index));
  const world = script([start('local'), ...small, text('large '.repeat(20_000), 100), finish]);
  const run = await world.responses.start(ASKED);
  await run.finished;
  const batches: (readonly string[])[] = [];
  for await (const ready of run.eventsAfter(-1, new AbortController().signal)) batches.push(ready);
  const all = batches.flat();
  assert.ok((batches[0]?.length ?? 0) > 100);
  for (const batch of batches) assert.ok(batch.slice(0, -1).join('').length < 64 * 1024);
  assert.equal(await endedEvents(world), all);
  assert.equal(await endedEvents(world, 100), all.slice(101));

  let made = 0;
  const json = JSON.stringify;
  JSON.stringify = ((value: unknown) => {
    made += 1;
    return json(value);
  }) as typeof json;
  try {
    for (const [event] of (await world.responses.eventsAfter(-1, ID, 'control'))!) if (event === all[1]) break;
  } finally {
    JSON.stringify = json;
  }
  assert.is(made, 2);
});

test('an answer at which daemons end is given up', async ({ script, dir }) => {
  const path = join(dir, 'background', `${ID}.jsonl`);
  const before = script([start('local'), text('one ', 1), 'wait']);
  await eventsOf(await before.responses.start(ASKED), 4);
  await before.responses.close();
  for (let crashes = 0; crashes < 4; crashes++) appendFileSync(path, '{"at":1,"taken_up":true}\n');
  const after = script([start('local'), crash], [start('local'), text('one two', 1, 2), finish]);
  await after.responses.open();
  await (await after.responses.running(ID, 'control'))!.finished;
  assert.equal(await stored(after), { status: 'failed', text: 'one ' });
  assert.is(after.requests.length, 1);
});

test('an answer longer than its journal fails, with what was told', async ({ script }) => {
  const long = { ...text('two ', 2), filler: 'x'.repeat(64 * 1024 * 1024) };
  const world = script([start('local'), text('one ', 1), long, text('three', 3), finish]);
  const run = await world.responses.start(ASKED);
  const told = await eventsOf(run);
  assert.match(told.at(-1) ?? '', /too long for a background response/);
  await run.finished;
  const { status, text: whole } = await stored(world);
  assert.is(status, 'failed');
  assert.not.match(whole, /three/, 'there is no gap');
  assert.equal(await endedEvents(world), told);
  assert.equal([await world.store.unfinished(), world.failures], [[], []]);
});

test('one that ended just before its daemon did is stored by the next', async ({ script, dir }) => {
  const before = script([start('local'), text('all', 1), finish]);
  await answered(before);
  const path = join(dir, 'background', `${ID}.jsonl`);
  const journal = readFileSync(path);
  await before.store.remove(ID, 'control');
  writeFileSync(path, journal);
  const after = script();
  await after.responses.open();
  await (
    await after.responses.running(ID, 'control')
  )?.finished;
  assert.equal(await stored(after), { status: 'completed', text: 'all' });
  assert.equal([after.requests, after.failures], [[], []]);
});

test('one that does not fit into the store with its events is stored without them', async ({ dir }) => {
  const world = scripted(dir, [[start('local'), text('a'.repeat(10_000), 1), finish]], { mostBytes: 20_000 });
  assert.equal(await answered(world), { status: 'completed', text: 'a'.repeat(10_000) });
  assert.is(await world.responses.eventsAfter(-1, ID, 'control'), null);
});

test('one that does not fit into the store at all can be read as failed', async ({ dir }) => {
  const world = scripted(dir, [[start('local'), text('a'.repeat(10_000), 1), finish]], { mostBytes: 5000 });
  assert.equal(await answered(world), { status: 'failed', text: '' });
  const { response, has_items } = (await world.store.find(ID, 'control'))!;
  assert.match(JSON.stringify(response['error']), /too large to be stored/);
  assert.is(has_items, false);
  assert.equal([await world.store.unfinished(), world.failures], [[], []]);
});

test('one that can never be stored is refused', async ({ dir }) => {
  const item = { type: 'message', role: 'user', content: 'a'.repeat(10_000) } as const;
  for (const [mostBytes, items] of [
    [0, ASKED.items],
    [10_000, [{ item, place: 'input' }]],
  ] as const) {
    const world = scripted(dir, [], { mostBytes });
    let error: unknown;
    await world.responses.start({ ...ASKED, items }).catch((thrown: unknown) => (error = thrown));
    assert.is((error as SvcError).code, 'REQUEST_TOO_LARGE');
    assert.equal([await world.store.unfinished(), world.requests], [[], []]);
  }
});

test('a file that is no journal is removed', async ({ script, dir }) => {
  const before = script([start('local'), text('all', 1), finish]);
  await answered(before);
  await before.store.remove(ID, 'control');
  writeFileSync(join(dir, 'background', `${ID}.jsonl`), 'nonsense\n');
  const after = script();
  await after.responses.open();
  assert.is(await after.responses.running(ID, 'control'), null);
  assert.equal(await after.store.unfinished(), []);
});

test('there is a limit to their number, and one for each client', async ({ script }) => {
  const world = script(...Array.from({ length: 66 }, (): Step[] => ['wait']));
  const idOf = (index: number): string => `resp_${String(index).padStart(32, '0')}`;
  const starting = async (owner: string, from: number, to: number): Promise<string[]> => {
    const ids = Array.from({ length: to - from }, (_, index) => idOf(from + index));
    const ends = await Promise.allSettled(ids.map((id) => world.responses.start({ ...ASKED, owner, id })));
    return ends.flatMap((end) => (end.status === 'rejected' ? [(end.reason as SvcError).message] : []));
  };
  assert.equal(await starting('control', 0, 49), ['48 background responses of this client are running']);
  assert.equal(await starting('key:b', 49, 66), ['64 background responses are running']);
  await (await world.responses.running(idOf(0), 'control'))!.cancel();
  assert.equal(await starting('key:b', 66, 67), []);
  await world.responses.close();
});

test.run();
