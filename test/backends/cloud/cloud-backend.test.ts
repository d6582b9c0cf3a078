/** The cloud backend: framing, aborts, queue, keys, model lists and health. */
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { GenerateEvent, Message, ToolCall } from '../../../src/protocol/generate.ts';
import { given } from '../../../src/protocol/given.ts';
import { rejection } from '../../support/errors.ts';
import { firstText } from '../../support/first-text.ts';
import { makeGate, type Gate } from '../../support/gate.ts';
import { startStopwatch, type Stopwatch } from '../../support/stopwatch.ts';
import { waitFor } from '../../support/wait.ts';
import { collect, context } from '../conformance.ts';
import { textOf } from '../local-support.ts';
import { ask, chunk, KEY, openConnections, reasoningOf, sayHello, USAGE } from './cloud-support.ts';
import type { Script } from './upstream.ts';
import { answer, cloudSuite, finishOf, said } from './cloud-suite.ts';

const owned = openConnections();

const test = cloudSuite('cloud backend');

test('a whole answer has model, text, finish reason and usage; the request has key and request id', async ({
  upstream,
  open,
}) => {
  upstream.script(sayHello);
  const events = await answer(open());
  assert.equal(events[0], { type: 'start', model: 'small-2026-07', provider: 'acme' });
  assert.is(textOf(events), 'Hello there');
  const { reason, usage } = finishOf(events);
  assert.is(reason, 'stop');
  assert.equal(usage, { input_tokens: 11, output_tokens: 3, cached_tokens: 4 });

  const [asked] = upstream.asked;
  assert.is(asked?.method, 'POST');
  assert.is(asked?.path, '/v1/chat/completions');
  assert.is(asked?.headers.authorization, `Bearer ${KEY}`);
  assert.is(asked?.headers['x-request-id'], 'conformance');
  assert.is(asked?.headers['content-type'], 'application/json');
});

test('calls of another server without an id, or with one for several, get ids of their own', async ({
  upstream,
  open,
}) => {
  upstream.script(sayHello);
  const call = (id: string): ToolCall => ({ id, name: 'look', arguments: '{}' });
  const result = (content: string, id?: string): Message => ({ role: 'tool', content, ...given({ tool_call_id: id }) });
  const messages: Message[] = [
    { role: 'user', content: 'Look.' },
    { role: 'assistant', content: '', tool_calls: ['w', '', 'w', 'x'].map(call) },
    ...[result('0', 'w'), result('1', ''), result('2', 'w'), result('3'), result('4', 'gone')],
  ];
  await answer(open(), ask('', { messages }));
  const [, turn, ...results] = upstream.asked[0]!.body.messages;
  const ids = turn.tool_calls.map(({ id }: ToolCall) => id);
  assert.equal(ids, ['w', 'call00001', 'call00002', 'x']);
  assert.equal(
    results.map((each: Message) => each.tool_call_id),
    [...ids, 'gone'],
  );
});

test('connections are kept alive and reused', async ({ upstream, open }) => {
  upstream.script(sayHello);
  const opened = open();
  for (let n = 0; n < 5; n++) {
    await answer(opened);
    // undici returns a connection to its pool in the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.is(upstream.connections(), 1);
});

/** Opened when the client has the text, and the finish in the same chunk. */
let heard: Gate;

/** Ways to frame a stream that do not change the answer. */
const FRAMINGS: Readonly<Record<string, Script>> = {
  'one byte at a time': async (turn) => {
    for (const content of ['Grüße, ', '世界 ', '👩‍👩‍👧'])
      await turn.bytes(`data: ${JSON.stringify(chunk({ content }))}\n\n`);
    await turn.bytes(`data: ${JSON.stringify(chunk({}, 'stop'))}\n\ndata: [DONE]\n\n`);
    turn.end();
  },
  'comments, blank lines and pings in between': async (turn) => {
    await turn.write(': OPENROUTER PROCESSING\n\n\n\n');
    await turn.event(chunk({ content: 'Grüße, ' }));
    await turn.write(':\n\n: keep-alive\n\nretry: 3000\n\nevent: ping\n\n');
    await turn.event(chunk({ content: '世界 👩‍👩‍👧' }, 'stop'));
    await turn.write('data:\n\n');
    await turn.event('[DONE]');
    turn.end();
  },
  'carriage returns and a byte order mark': async (turn) => {
    await turn.write('\ufeff');
    for (const each of [chunk({ content: 'Grüße, 世' }), chunk({ content: '界 👩‍👩‍👧' }), chunk({}, 'stop')]) {
      await turn.bytes(`data: ${JSON.stringify(each)}\r\n\r\n`);
    }
    await turn.write('data: [DONE]\r\n\r\n');
    turn.end();
  },
  'no [DONE]': async (turn) => {
    await turn.event(chunk({ content: 'Grüße, 世界 👩‍👩‍👧' }));
    await turn.event(chunk({}, 'stop'));
    turn.end();
  },
  'no last line break': async (turn) => {
    await turn.event(chunk({ content: 'Grüße, 世界 👩‍👩‍👧' }));
    await turn.write(`data: ${JSON.stringify(chunk({}, 'stop'))}`);
    turn.end();
  },
  'a silence after the finish that never ends': async (turn) => {
    await turn.event(chunk({ content: 'Grüße, 世界 👩‍👩‍👧' }, 'stop'));
  },
  'a silence after [DONE] that never ends': async (turn) => {
    await turn.event(chunk({ content: 'Grüße, 世界 👩‍👩‍👧' }, 'stop'));
    await turn.event('[DONE]');
  },
  'a reset after the finish': async (turn) => {
    await turn.event(chunk({ content: 'Grüße, 世界 👩‍👩‍👧' }, 'stop'));
    await heard.opened;
    turn.reset();
  },
  'not streamed, as one JSON document': (turn) =>
    turn.json(200, {
      ...chunk({}),
      choices: [{ message: { role: 'assistant', content: 'Grüße, 世界 👩‍👩‍👧' }, finish_reason: 'stop' }],
      usage: USAGE,
    }),
};
for (const [name, script] of Object.entries(FRAMINGS)) {
  test(`the framing does not change the answer: ${name}`, async ({ upstream, open }) => {
    heard = makeGate();
    upstream.script(script);
    const events: GenerateEvent[] = [];
    for await (const event of open().backend.generate(ask(), context())) {
      events.push(event);
      if (event.type === 'text') heard.open();
    }
    assert.is(textOf(events), 'Grüße, 世界 👩‍👩‍👧');
    assert.is(finishOf(events).reason, 'stop');
    assert.equal(
      events.filter(({ type }) => type === 'start' || type === 'finish').map(({ type }) => type),
      ['start', 'finish'],
    );
  });
}

test('reasoning is not part of the answer, and missing usage is null', async ({ upstream, open }) => {
  upstream.script(async (turn) => {
    for (const content of ['<th', 'ink>2+', '2</thi', 'nk>\n\n', '4']) await turn.event(chunk({ content }));
    await turn.event(chunk({}, 'stop'));
    turn.end();
  });
  const events = await answer(open());
  assert.is(reasoningOf(events), '2+2');
  assert.is(textOf(events), '4');
  assert.is(finishOf(events).usage, null);
  assert.is(finishOf(events).timings.tokens_per_second, null);
});

test('aborting a request closes its connection', async ({ upstream, open }) => {
  const taken: Stopwatch[] = [];
  let took: number | undefined;
  upstream.script(async (turn) => {
    await turn.event(chunk({ content: 'Hel' }));
    await turn.over();
    took = taken[0]?.ms();
  });
  const controller = new AbortController();
  const reason = new SvcError('CANCELLED', 'the caller has left');
  const waiting = open().backend.generate(ask(), context(controller.signal))[Symbol.asyncIterator]();
  await firstText(waiting);
  const pending = waiting.next();
  taken.push(startStopwatch());
  controller.abort(reason);
  await rejection(() => pending, 'CANCELLED');
  const ms = await waitFor('the provider to notice', () => took);
  // Client and server share one busy process, so the limit is generous: what a user would notice.
  assert.ok(ms < 1000, `${String(ms)} ms`);
});

for (const concurrency of [1, 3]) {
  test(`with concurrency ${String(concurrency)}, the other requests wait in the queue`, async ({ upstream, open }) => {
    let active = 0;
    let most = 0;
    upstream.script(async (turn) => {
      active += 1;
      most = Math.max(most, active);
      await waitFor('as many as may be', () => most >= concurrency);
      active -= 1;
      await sayHello(turn);
    });
    const opened = open({ concurrency });
    const names = ['1', '2', '3', '4', '5', '6'];
    const answers = await Promise.all(names.map((name) => answer(opened, ask(name))));
    assert.is(most, concurrency);
    if (concurrency === 1)
      assert.equal(
        upstream.asked.map(({ body }) => body.messages[0].content),
        names,
      );
    const queued = answers.map((events) => finishOf(events).timings.queue_ms);
    assert.ok(queued[0]! < queued[5]!);
  });
}

test('a request aborted in the queue is never sent', async ({ upstream, open }) => {
  upstream.script(() => undefined);
  const opened = open({ concurrency: 1 });
  const first = new AbortController();
  const running = rejection(() => collect(opened.backend.generate(ask('1'), context(first.signal))), 'CANCELLED');
  await waitFor('the first request', () => upstream.asked.length === 1);
  const second = new AbortController();
  const queued = rejection(() => collect(opened.backend.generate(ask('2'), context(second.signal))), 'CANCELLED');
  const third = answer(opened, ask('3'));
  second.abort(new SvcError('CANCELLED', 'left'));
  await queued;
  upstream.script(sayHello);
  first.abort(new SvcError('CANCELLED', 'left'));
  await running;
  assert.is(textOf(await third), 'Hello there');
  assert.equal(
    upstream.asked.map(({ body }) => body.messages[0].content),
    ['1', '3'],
  );
});

test('without its required key, nothing is sent', async ({ upstream, open }) => {
  const opened = open({
    readKey: () => Promise.resolve(null),
    credential: () => ({ source: 'env', name: 'ACME_API_KEY', present: false }),
  });
  const { hint } = await rejection(() => answer(opened), 'PROVIDER_AUTH');
  assert.match(hint ?? '', /ACME_API_KEY/);
  assert.is(opened.backend.record().state, 'unconfigured');
  assert.is(upstream.asked.length, 0);
});

test('a server that needs no key gets none', async ({ upstream, open }) => {
  upstream.script(sayHello);
  await answer(
    open({ readKey: () => Promise.resolve(null), credential: () => ({ source: 'none', name: null, present: false }) }),
  );
  assert.is(upstream.asked[0]?.headers.authorization, undefined);
});

test('a key that is invalid in a header is not repeated in the error', async ({ open }) => {
  const error = await rejection(
    () => answer(open({ readKey: () => Promise.resolve('sk-line\nbreak') })),
    'PROVIDER_FAILED',
  );
  assert.not.match(error.told, /sk-line/);
});

test('the model list is read over several pages', async ({ upstream, open }) => {
  upstream.script((turn) => {
    const after = new URL(turn.request.path, 'http://x').searchParams.get('after');
    const page = { null: ['a', 'b'], b: ['c', 'd'], d: ['e'] }[String(after)] ?? [];
    turn.json(200, { data: page.map((id) => ({ id })), has_more: after !== 'd', last_id: page.at(-1) });
  });
  assert.equal(await open().backend.modelNames(new AbortController().signal), ['a', 'b', 'c', 'd', 'e']);
  assert.equal(
    upstream.asked.map(({ path }) => path),
    ['/v1/models', '/v1/models?after=b', '/v1/models?after=d'],
  );
});

test('model list: endless pages stop, a bare list is read, a missing list and refusals are errors', async ({
  upstream,
  open,
}) => {
  const { signal } = new AbortController();
  upstream.script((turn) => turn.json(200, { data: [{ id: 'a' }], has_more: true, last_id: 'a' }));
  assert.equal(await open().backend.modelNames(signal), ['a']);
  upstream.script((turn) => turn.json(200, [{ id: 'x' }, { id: 'y' }]));
  assert.equal(await open().backend.modelNames(signal), ['x', 'y']);
  await rejection(() => open({ quirks: { models_path: null } }).backend.modelNames(signal), 'NOT_FOUND');
  upstream.script((turn) => turn.json(401, said('bad key')));
  await rejection(() => open().backend.modelNames(signal), 'PROVIDER_AUTH');
  upstream.script((turn) => turn.json(200, { nothing: true }));
  await rejection(() => open().backend.modelNames(signal), 'PROVIDER_FAILED');
});

test('the record shows the health of the provider', async ({ upstream, open }) => {
  const opened = open();
  assert.is(opened.backend.record().state, 'unknown');
  upstream.script((turn) => turn.json(500, said('a secret')));
  await rejection(() => answer(opened), 'PROVIDER_FAILED');
  const ill = opened.backend.record();
  assert.is(ill.state, 'unhealthy');
  assert.match(ill.last_error ?? '', /status 500/);
  assert.not.match(ill.last_error ?? '', /secret/);
  upstream.script(sayHello);
  await answer(opened);
  const well = opened.backend.record();
  assert.is(well.state, 'healthy');
  assert.is(well.last_error, null);
  assert.ok(well.last_checked_at);
});

test('without a default model, the request must name one', async ({ open }) => {
  const { param, hint } = await rejection(() => answer(open({ defaultModel: null })), 'INVALID_REQUEST');
  assert.is(param, 'model');
  assert.match(hint ?? '', /svc provider models acme/);
});

test('close leaves no connection open', async ({ upstream, open }) => {
  upstream.script(sayHello);
  const opened = open();
  await answer(opened);
  assert.is(owned(), 1);
  await opened.backend.close();
  assert.is(owned(), 0);
});

test('tokens and raw prompts are refused, with the name of the provider', async ({ open, upstream }) => {
  const { backend } = open();
  for (const act of [() => backend.tokenize(), () => backend.detokenize()])
    assert.is((await rejection(act, 'INVALID_REQUEST', /^acme: .* tokens cannot be computed/)).param, 'model');
  const request = { messages: [], raw: { text: 'a' }, sampling: {}, stop: [], model: 'm' };
  const events = backend.generate(request, context());
  const { param } = await rejection(() => events.next(), 'INVALID_REQUEST', /^acme: prompts that are not chats/);
  assert.is(param, 'prompt');
  assert.equal(upstream.asked, []);
});

test.run();
