/** The client that applications import, against a daemon with models: the same on the control socket and over HTTP. */
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Client, type GenerateCall } from '../../src/client/index.ts';
import { addKey } from '../../src/home/key-file.ts';
import type { ErrorCode } from '../../src/protocol/errors.ts';
import { rejection } from '../support/errors.ts';
import { hold } from '../support/hold.ts';
import { endServing, serve, type Serving } from '../support/serving.ts';
import { waitFor } from '../support/wait.ts';

const TRANSPORTS = ['socket', 'http'] as const;
type Transport = (typeof TRANSPORTS)[number];

let serving: Serving;
let baseUrl: string;
let apiKey: string;
let clients: Readonly<Record<Transport, Client>>;

test.before(async () => {
  serving = await serve({
    tiny: 'tiny-llama',
    long: 'tiny-long',
    bert: 'tiny-bert',
    ranker: 'tiny-rank',
    thinker: 'tiny-thinker',
  });
  const { home, daemon } = serving;
  apiKey = (await addKey(join(home.dir, 'data', 'keys.json'), 'app', 'admin')).key;
  const { http } = await daemon.client.status();
  baseUrl = `http://${String(http)}`;
  clients = { socket: new Client({ socketPath: daemon.socketPath }), http: new Client({ baseUrl, apiKey }) };
});
test.after(async () => {
  await endServing(serving);
});

const GREEDY = { sampling: { temperature: 0 }, max_tokens: 12 };
/** It takes minutes to its end: every token has the bias of an ordinary one, and the context is long. */
const ENDLESS: GenerateCall = { model: 'long', prompt: 'Go on', sampling: { logit_bias: [[100, 100]] } };

/** The answers of both transports, without what differs between two requests. */
async function both<Answer extends { timings: unknown; trace_id: string; route: unknown; usage: unknown }>(
  ask: (client: Client) => Promise<Answer>,
): Promise<Omit<Answer, 'timings' | 'trace_id' | 'usage'>> {
  const [first, second] = [await ask(clients.socket), await ask(clients.http)].map((answer) => {
    const { timings, trace_id, usage, ...rest } = answer;
    assert.ok(timings && usage && trace_id.length === 32);
    return rest;
  });
  assert.equal(first, second);
  return first as Omit<Answer, 'timings' | 'trace_id' | 'usage'>;
}

test('generate: a prompt and the same chat have the same whole answer', async () => {
  const asked = { model: 'tiny', ...GREEDY };
  const prompted = await both((client) => client.generate({ ...asked, prompt: 'Hello' }).result());
  assert.is(prompted.model, 'tiny');
  assert.is(prompted.provider, 'local');
  assert.is(prompted.finish_reason, 'length');
  assert.ok(prompted.text.length > 0);
  assert.equal(prompted.route, {
    requested: 'default',
    chosen: 'local',
    attempts: [{ provider: 'local', model: 'tiny', outcome: 'ok', reason: null }],
  });
  const messages = [{ role: 'user', content: 'Hello' }] as const;
  assert.equal(await both((client) => client.chat({ ...asked, messages }).result()), prompted);
});

for (const name of TRANSPORTS) {
  test(`${name}: the events are those of the whole answer, and result() after the loop returns it`, async () => {
    const answer = clients[name].generate({ model: 'tiny', prompt: 'Hello', logprobs: 1, ...GREEDY });
    const types: string[] = [];
    let text = '';
    for await (const event of answer) {
      types.push(event.type);
      if (event.type === 'text') text += event.text;
    }
    assert.equal([types[0], types[1], types.at(-1)], ['route', 'start', 'finish']);
    const result = await answer.result();
    assert.is(result.text, text);
    assert.is(result.logprobs?.length, result.usage?.output_tokens);
    assert.is(result.logprobs?.[0]?.top.length, 1);
    assert.equal(await answer.result(), result, 'and again');
  });

  test(`${name}: a forced tool call and reasoning arrive as such`, async () => {
    const parameters = { type: 'object', properties: { days: { type: 'integer', minimum: 1, maximum: 9 } } };
    const call = await clients[name]
      .generate({
        model: 'thinker',
        prompt: 'Will it rain?',
        tools: [{ name: 'forecast', parameters: { ...parameters, required: ['days'], additionalProperties: false } }],
        tool_choice: { name: 'forecast' },
        parallel_tool_calls: false,
        reasoning_budget_tokens: 8,
        max_tokens: 200,
        sampling: { seed: 9 },
      })
      .result();
    assert.is(call.finish_reason, 'tool_calls');
    assert.is(call.tool_calls?.[0]?.name, 'forecast');
    assert.type((JSON.parse(call.tool_calls?.[0]?.arguments ?? '') as { days: unknown }).days, 'number');
    assert.ok((call.reasoning ?? '').length > 0);
  });

  test(`${name}: leaving the loop, and aborting, end the generation in the daemon`, async () => {
    const client = clients[name];
    const { daemon } = serving;
    const load = daemon.client.load('long', new AbortController().signal);
    for await (const _ of load);
    for (const end of ['break', 'abort'] as const) {
      const controller = new AbortController();
      const answer = client.generate(ENDLESS, { signal: controller.signal });
      const read = async (): Promise<void> => {
        for await (const event of answer) {
          if (event.type !== 'text') continue;
          await waitFor('the daemon to count it', async () => (await daemon.client.health()).queue.active === 1);
          // Stopped, so that it cannot end by itself.
          const { pid } = (await daemon.client.health()).models.find(({ id }) => id === 'long') ?? {};
          const held = hold(Number(pid));
          try {
            if (end === 'break') break;
            controller.abort(new Error('enough'));
          } finally {
            held.release();
          }
        }
      };
      if (end === 'break') await read();
      else assert.match(String((await rejection(read, 'CANCELLED')).cause), 'enough');
      await waitFor('the daemon to forget it', async () => {
        const { queue, models } = await daemon.client.health();
        return queue.active + queue.waiting === 0 && models.every(({ active }) => active === 0);
      });
      await rejection(() => answer.result(), 'CANCELLED');
    }
    const gone = { signal: AbortSignal.abort() };
    await rejection(() => client.generate(ENDLESS, gone).result(), 'CANCELLED');
    await rejection(() => client.embed({ model: 'bert', input: 'a' }, gone), 'CANCELLED');
    await rejection(() => client.rerank({ model: 'ranker', query: 'a', documents: ['b'] }, gone), 'CANCELLED');
    await rejection(() => client.models(gone), 'CANCELLED');
    await rejection(() => client.health(gone), 'CANCELLED');
  });

  test(`${name}: errors have the daemon's code, field and hint`, async () => {
    const client = clients[name];
    const unknown = await rejection(
      () => client.generate({ model: 'nobody', prompt: 'x' }).result(),
      'MODEL_NOT_FOUND',
      /nobody/,
    );
    assert.match(unknown.hint ?? '', /svc model/);
    const wrong = await rejection(
      () => client.generate({ model: 'tiny', prompt: 'x', sampling: { top_p: 2 } }).result(),
      'INVALID_REQUEST',
    );
    assert.is(wrong.param, 'sampling.top_p');
    await rejection(() => client.embed({ model: 'tiny', input: 'x' }), 'INVALID_REQUEST');
    await rejection(() => client.rerank({ model: 'tiny', query: 'x', documents: ['y'] }), 'INVALID_REQUEST');
    const long = 'rain '.repeat(200_000);
    await rejection(() => client.generate({ model: 'tiny', prompt: long }).result(), 'CONTEXT_OVERFLOW');
    const early = client.generate({ ...ENDLESS, timeout_ms: 1 });
    await rejection(() => early.result(), 'TIMEOUT');
    await rejection(() => early.result(), 'TIMEOUT');
  });
}

test('embed: vectors of norm 1, for one text, several, and token ids', async () => {
  const whole = await both((client) => client.embed({ model: 'bert', input: ['river', 'bridge', [5, 6]] }));
  assert.is(whole.model, 'bert');
  assert.equal(
    whole.embeddings.map((vector) => [vector.constructor.name, Math.hypot(...vector).toFixed(4)]),
    Array(3).fill(['Float32Array', '1.0000']),
  );
  const one = await both((client) => client.embed({ model: 'bert', input: 'river' }));
  const [alone, inBatch] = [one.embeddings[0], whole.embeddings[0]];
  assert.is(one.embeddings.length, 1);
  assert.ok(alone?.every((value, index) => Math.abs(value - (inBatch?.[index] ?? 9)) < 1e-3));
});

test('rerank: the most relevant first, at most top_n', async () => {
  const asked = { model: 'ranker', query: 'What runs under the bridge?', documents: ['boats', 'The river.', 'x'] };
  const { results } = await both((client) => client.rerank(asked));
  assert.equal(results.map(({ index }) => index).sort(), [0, 1, 2]);
  assert.equal(
    results.map(({ score }) => score),
    results.map(({ score }) => score).sort((a, b) => b - a),
  );
  const best = await both((client) => client.rerank({ ...asked, top_n: 1 }));
  assert.equal(best.results, results.slice(0, 1));
  for (const top_n of [0, -1, 1.5]) {
    const error = await rejection(() => clients.socket.rerank({ ...asked, top_n }), 'INVALID_REQUEST');
    assert.is(error.param, 'top_n');
  }
});

test('models and health: the records of the command line', async () => {
  const [models, same] = [await clients.socket.models(), await clients.http.models()];
  // The memory of an engine is measured for each request.
  const withoutMemory = (records: typeof models): unknown[] =>
    records.map(({ loaded, ...record }) => ({ ...record, loaded: loaded && { ...loaded, memory_bytes: null } }));
  assert.equal(withoutMemory(models), withoutMemory(same));
  assert.ok(['tiny', 'bert', 'ranker'].every((id) => models.some((model) => model.id === id)));
  for (const name of TRANSPORTS) {
    const { status, pid, conditions } = await clients[name].health();
    assert.equal([status, pid], ['ready', serving.daemon.pid]);
    assert.ok(conditions.length > 0);
  }
});

test('only the control socket takes a file as the model', async () => {
  const path = (await clients.socket.models()).find(({ id }) => id === 'tiny')?.path ?? '';
  const asked: GenerateCall = { model: `file:${path}`, prompt: 'Hello', max_tokens: 1 };
  assert.ok((await clients.socket.generate(asked).result()).text);
  await rejection(() => clients.http.generate(asked).result(), 'MODEL_NOT_FOUND', /control socket/);
});

test('without the right key, or a daemon, the error says what to do', async () => {
  for (const wrong of [undefined, 'svc_wrong']) {
    const client = new Client({ baseUrl, apiKey: wrong });
    for (const ask of [
      () => client.generate(ENDLESS).result(),
      () => client.embed({ input: 'a' }),
      () => client.rerank({ query: 'a', documents: ['b'] }),
      () => client.models(),
      () => client.health(),
    ]) {
      const error = await rejection(ask, 'UNAUTHORIZED');
      assert.match(error.hint ?? '', /svc key add/);
      assert.not.ok(`${error.message} ${String(error.hint)}`.includes('svc_wrong'));
    }
  }
  for (const nowhere of [
    new Client({ socketPath: '/nonexistent/svc.sock' }),
    new Client({ baseUrl: 'http://[::1]:9' }),
  ])
    for (const ask of [() => nowhere.generate(ENDLESS).result(), () => nowhere.health()])
      assert.match((await rejection(ask, 'DAEMON_NOT_RUNNING')).hint ?? '', /svc start/);
});

test('invalid options and requests are refused before anything is sent', async () => {
  const refused = async (what: string, act: () => unknown, code: ErrorCode = 'INVALID_REQUEST'): Promise<void> => {
    assert.is((await rejection(act, code)).param, what);
  };
  for (const wrong of ['', 'nowhere', 'ftp://a', 'http://a:b@c', 'http://a/?b', 'http://a/#b', `${baseUrl}/v1`])
    await refused('baseUrl', () => new Client({ baseUrl: wrong }));
  for (const wrong of ['', 'two words', 'line\nbreak', 'schlüssel'])
    await refused('apiKey', () => new Client({ baseUrl, apiKey: wrong }));
  const { socket } = clients;
  await refused('prompt', () => socket.generate({} as GenerateCall).result());
  await refused('prompt', () => socket.generate({ prompt: 'a', messages: [] } as unknown as GenerateCall).result());
  await rejection(
    () => socket.generate({ prompt: 'a', max_tokens: 1n } as unknown as GenerateCall).result(),
    'INVALID_REQUEST',
    /JSON/,
  );
});

test('an address may end with a slash, or have a path that a proxy takes away', async () => {
  assert.is((await new Client({ baseUrl: `${baseUrl}/`, apiKey }).health()).status, 'ready');
  // Without a proxy the path is unknown to the daemon.
  await rejection(() => new Client({ baseUrl: `${baseUrl}/behind/`, apiKey }).health(), 'NOT_FOUND');
});

test.run();
