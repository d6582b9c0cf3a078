/** A cluster of four servers, each on its own socket, and failures of single servers. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClusterBackend } from '../../../src/backends/cloud/cluster/cluster-backend.ts';
import { Collector } from '../../../src/protocol/collect.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import type { GenerateEvent } from '../../../src/protocol/generate.ts';
import { standStill } from '../../support/stand-still.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { waitFor } from '../../support/wait.ts';
import { ask, chunk, provider } from '../cloud/cloud-support.ts';
import { lengthScores, openAiVectors, vectorOf } from '../cloud/embedding-support.ts';
import { startUpstream, type Script, type Upstream } from '../cloud/upstream.ts';
import { collect, context, failure } from '../conformance.ts';
import { recorder, type LogLine } from '../local-support.ts';

interface World {
  servers: Upstream[];
  backend: ClusterBackend;
  log: LogLine[];
}

const test = suite<World>('cluster');

/** Answers with the number of the server. */
const answer =
  (index: number, ms = 0): Script =>
  async (turn) => {
    if (turn.request.method === 'GET') {
      turn.json(turn.request.path === '/health' ? 200 : 404, {});
      return;
    }
    await sleep(ms);
    await turn.event(chunk({ role: 'assistant', content: `server ${String(index)}` }));
    await turn.event(chunk({}, 'stop'));
    await turn.event('[DONE]');
    turn.end();
  };

test.before.each(async (world) => {
  world.servers = await Promise.all([0, 1, 2, 3].map((index) => startUpstream(answer(index))));
  world.log = [];
  world.backend = new ClusterBackend({
    provider: provider('', { endpoints: world.servers.map(({ url }) => `${url}/v1`) }),
    log: recorder(world.log),
  });
});
test.after.each(async ({ servers, backend }) => {
  await backend.destroy(new SvcError('CANCELLED', 'the test is over'));
  await Promise.all(servers.map((server) => server.close()));
});

const textOf = (events: readonly GenerateEvent[]): string =>
  events.map((event) => (event.type === 'text' ? event.text : '')).join('');
const asking = async (backend: ClusterBackend, prompt: string): Promise<number> =>
  Number(textOf(await collect(backend.generate(ask(prompt), context()))).slice('server '.length));
/** The server that `prompt` is sent to while all servers are healthy. */
const homeOf = asking;
const posts = (server: Upstream): number => server.asked.filter(({ method }) => method === 'POST').length;

test('requests with the same beginning go to the same server', async ({ backend }) => {
  const seen = new Set<number>();
  for (let n = 0; n < 12; n += 1) {
    const home = await homeOf(backend, `question ${String(n)}`);
    seen.add(home);
    assert.is(await asking(backend, `question ${String(n)}`), home);
  }
  assert.ok(seen.size >= 3, [...seen].join());
});

test('servers stay healthy if svc itself was blocked for longer than the probe timeout', async ({
  backend,
  servers,
}) => {
  const home = await homeOf(backend, 'hello');
  let times = 0;
  for (const server of servers) {
    const say = answer(servers.indexOf(server));
    server.script(async (turn) => {
      if (turn.request.path === '/health') {
        times += 1;
        standStill(600);
      }
      await say(turn);
    });
  }
  await waitFor('a probe of each', () => times >= servers.length);
  for (const server of servers) server.script(answer(servers.indexOf(server)));
  assert.is(await asking(backend, 'hello'), home);
});

const breakOff: Script = (turn) => {
  turn.head();
  turn.reset();
};
const ills: readonly [name: string, ill: (server: Upstream) => Promise<void> | void][] = [
  ['is killed', (server) => server.close()],
  ['resets', (server) => server.script((turn) => turn.reset())],
  ['breaks off before the first text', (server) => server.script(breakOff)],
  ['fails', (server) => server.script((turn) => turn.json(500, {}))],
  ['drains', (server) => server.script((turn) => turn.json(503, {}, { 'retry-after': '5' }))],
  ['is full', (server) => server.script((turn) => turn.json(429, {}, { 'retry-after': '5' }))],
  ['lacks the model', (server) => server.script((turn) => turn.json(404, {}))],
];

for (const [name, ill] of ills) {
  test(`a server that ${name}: another one answers at once`, async ({ backend, servers }) => {
    const home = await homeOf(backend, 'hello');
    await ill(servers[home] as Upstream);
    const taken = startStopwatch();
    const other = await asking(backend, 'hello');
    assert.is.not(other, home);
    assert.ok(taken.ms() < 5000);
    assert.is(await asking(backend, 'hello'), other, 'and again the same one');
  });
}

test('a silent server: waiting requests are moved to others, and new requests avoid it', async ({
  backend,
  servers,
}) => {
  const home = await homeOf(backend, 'hello');
  servers[home]?.script(() => undefined);
  const stuck = asking(backend, 'hello');
  assert.is.not(await stuck, home);
  const asked = servers[home]?.asked.filter(({ method }) => method === 'POST').length;
  assert.is.not(await asking(backend, 'hello'), home);
  assert.is(servers[home]?.asked.filter(({ method }) => method === 'POST').length, asked);
});

test('a server that recovers gets its requests back', async ({ backend, servers }) => {
  const home = await homeOf(backend, 'hello');
  servers[home]?.script((turn) => turn.json(503, {}, { 'retry-after': '1' }));
  assert.is.not(await asking(backend, 'hello'), home);
  servers[home]?.script(answer(home));
  await waitFor('it to be taken back', async () => (await asking(backend, 'hello')) === home);
  assert.is(backend.record().last_error, null);
});

test('a slow server gets fewer requests', async ({ backend, servers }) => {
  const home = await homeOf(backend, 'hello');
  servers[home]?.script(answer(home, 3000));
  const answers = await Promise.all(Array.from({ length: 40 }, () => asking(backend, 'hello')));
  const slow = answers.filter((index) => index === home).length;
  assert.ok(slow > 0 && slow <= 16, String(slow));
});

test('after the first text no request is retried', async ({ backend, servers }) => {
  for (const server of servers) {
    server.script(async (turn) => {
      if (turn.request.method === 'GET') turn.json(200, {});
      else {
        await turn.event(chunk({ content: 'half' }));
        turn.reset();
      }
    });
  }
  const error = await failure(collect(backend.generate(ask('hello'), context())));
  assert.is(error.code, 'PROVIDER_FAILED');
  assert.is(
    servers.reduce((sum, server) => sum + posts(server), 0),
    1,
  );
});

test('if all servers fail, each was asked once, and the last error is returned', async ({ backend, servers }) => {
  for (const server of servers) server.script((turn) => turn.json(500, { error: { message: 'broken' } }));
  assert.is((await failure(collect(backend.generate(ask('hello'), context())))).code, 'PROVIDER_FAILED');
  assert.equal(servers.map(posts), [1, 1, 1, 1]);
  assert.is(backend.record().state, 'unhealthy');
});

test('an error caused by the caller is not retried on another server', async ({ backend, servers }) => {
  for (const server of servers) server.script((turn) => turn.json(400, { error: { message: 'no' } }));
  assert.is((await failure(collect(backend.generate(ask('hello'), context())))).code, 'INVALID_REQUEST');
  assert.is(
    servers.reduce((sum, server) => sum + posts(server), 0),
    1,
  );
});

test('aborting a request also closes its connection to the server', async ({ backend, servers }) => {
  for (const server of servers)
    server.script((turn) => (turn.request.method === 'GET' ? turn.json(200, {}) : undefined));
  const client = new AbortController();
  const gone = new SvcError('CANCELLED', 'left');
  const outcome = failure(collect(backend.generate(ask('hello'), context(client.signal))));
  await waitFor('the request to arrive', () => servers.some((server) => posts(server) > 0));
  client.abort(gone);
  assert.is(await outcome, gone);
});

test('a server that is busy with requests of other clients gets fewer', async ({ backend, servers }) => {
  const home = await homeOf(backend, 'hello');
  servers[home]?.script(async (turn) => {
    if (turn.request.path === '/metrics') {
      turn.json(200, 'vllm:num_requests_waiting 50\nvllm:num_requests_running 50\n');
    } else await answer(home)(turn);
  });
  await waitFor('the load to be seen', async () => (await asking(backend, 'hello')) !== home);
});

test('embeddings are spread over the servers, and go on if one is broken', async ({ backend, servers }) => {
  for (const server of servers)
    server.script((turn) => (turn.request.method === 'GET' ? turn.json(200, {}) : openAiVectors(turn)));
  const embed = async (traceId: string): Promise<Collector> =>
    Collector.of(backend.embed({ model: 'm', input: ['a'] }, { ...context(), traceId }));
  for (let n = 0; n < 24; n += 1) assert.equal((await embed(String(n))).vectors, [vectorOf('a')]);
  assert.ok(servers.filter((server) => posts(server) > 0).length >= 3);

  const [broken] = servers;
  broken?.script((turn) => turn.reset());
  for (let n = 0; n < 24; n += 1) assert.equal((await embed(String(n))).vectors, [vectorOf('a')]);
});

test('reranking goes on if a server is broken', async ({ backend, servers }) => {
  for (const server of servers)
    server.script((turn) => (turn.request.method === 'GET' ? turn.json(200, {}) : lengthScores(turn)));
  servers[0]?.script((turn) => turn.reset());
  for (let n = 0; n < 12; n += 1) {
    const asked = { ...context(), traceId: String(n) };
    const request = { model: 'm', query: 'q', documents: ['a', 'bc'] };
    assert.equal((await Collector.of(backend.rerank(request, asked))).scores, [1, 2]);
  }
});

test.run();
