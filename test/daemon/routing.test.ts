/** Routing in a real daemon: policies, budgets and clusters, with the built-in model and fake servers. */
import * as assert from 'uvu/assert';
import type { ControlClient } from '../../src/client/control-client.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../src/protocol/generate.ts';
import { chunk } from '../backends/cloud/cloud-support.ts';
import { startUpstream, type Script, type Upstream } from '../backends/cloud/upstream.ts';
import { waitFor } from '../support/wait.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import { configure } from '../support/home.ts';

interface Context extends DaemonContext {
  servers: Upstream[];
  /** Starts a daemon with this config. */
  start(config: object): Promise<ControlClient>;
}

const test = daemonSuite<Context>('routing');
test.before.each(async (context) => {
  context.servers = await Promise.all([startUpstream(sayHello), startUpstream(sayHello)]);
  context.start = async (config) => {
    const free = { http: { port: 0 }, grpc: { port: 0 } };
    configure(context.home, { ...free, ...config });
    const daemon = await (await startIn(context).answering()).settled();
    return daemon.client;
  };
});
test.after.each(async ({ servers }) => {
  await Promise.all(servers.map((server) => server.close()));
});

const sayHello: Script = async (turn) => {
  if (turn.request.method === 'GET') {
    turn.json(200, {});
    return;
  }
  await turn.event(chunk({ role: 'assistant', content: 'Hello from elsewhere' }));
  await turn.event(chunk({}, 'stop', { usage: { prompt_tokens: 5, completion_tokens: 4 } }));
  await turn.event('[DONE]');
  turn.end();
};
const posts = (server: Upstream | undefined): number =>
  server?.asked.filter(({ method }) => method === 'POST').length ?? 0;

async function ask(client: ControlClient, request: Partial<GenerateRequest> = {}): Promise<RouteEvent['route']> {
  const whole = { messages: [{ role: 'user' as const, content: 'hello' }], sampling: {}, stop: [], ...request };
  const events: (RouteEvent | GenerateEvent)[] = [];
  for await (const event of client.generate(whole)) events.push(event);
  assert.is(events.at(-1)?.type, 'finish');
  const [first] = events;
  assert.ok(first?.type === 'route');
  return first.route;
}

async function refusal(promise: Promise<unknown>): Promise<SvcError> {
  try {
    await promise;
  } catch (error) {
    return SvcError.from(error);
  }
  throw new Error('it was not refused');
}

test('a policy falls back from an unreachable server to this machine, and uses the server again when it is back', async ({
  start,
  servers,
}) => {
  const [server] = servers;
  server?.script((turn) => turn.json(503, {}));
  const client = await start({
    providers: { farm: { base_url: `${server?.url ?? ''}/v1`, default_model: 'm' } },
    policies: {
      default: { candidates: ['farm', 'local'] },
      strict: { candidates: ['farm', 'local'], fallback_on: [] },
    },
  });
  const route = await ask(client);
  assert.equal([route.requested, route.chosen], ['default', 'local']);
  assert.equal(
    route.attempts.map(({ provider, outcome }) => [provider, outcome]),
    [...Array.from({ length: route.attempts.length - 1 }, () => ['farm', 'failed']), ['local', 'ok']],
  );
  for (const request of [{ model: 'strict' }, { fallback: false }, { route: 'provider:farm' }]) {
    // The provider fails, or its circuit is open by now.
    assert.match((await refusal(ask(client, request))).code, /^(PROVIDER_FAILED|NOT_READY)$/);
  }

  server?.script(sayHello);
  await waitFor('the server to be asked again', async () => (await ask(client)).chosen === 'farm');
  assert.is((await ask(client, { model: 'local/builtin' })).chosen, 'local');
});

test('a request that exceeds the local context goes to a server with a larger one', async ({ start, servers }) => {
  const client = await start({
    engine: { context_length: 256 },
    providers: { farm: { base_url: `${servers[0]?.url ?? ''}/v1`, default_model: 'm' } },
    policies: { default: { candidates: ['local', 'farm'], fallback_on: ['context_too_long'] } },
  });
  assert.is((await ask(client)).chosen, 'local');
  const long = { messages: [{ role: 'user' as const, content: 'word '.repeat(2000) }] };
  const route = await ask(client, long);
  assert.equal([route.chosen, route.attempts.length], ['farm', 2]);
  assert.is((await refusal(ask(client, { ...long, model: 'builtin' }))).code, 'CONTEXT_OVERFLOW');
});

test('a daily budget holds, even after kill -9, and a fallback may answer', async (context) => {
  const { start, servers, running } = context;
  const config = {
    providers: { farm: { base_url: `${servers[0]?.url ?? ''}/v1`, default_model: 'm', requests_per_day: 3 } },
    policies: { default: { candidates: ['farm', 'local'], fallback_on: ['overloaded'] } },
  };
  const day = new Date().getUTCDate();
  const client = await start(config);
  for (let n = 0; n < 3; n += 1) assert.is((await ask(client)).chosen, 'farm');
  assert.is((await ask(client)).chosen, 'local');
  running[0]?.kill('SIGKILL');
  await running[0]?.exit;

  const again = await start(config);
  if (new Date().getUTCDate() !== day) return;
  const error = await refusal(ask(again, { route: 'provider:farm' }));
  assert.is(error.code, 'BUSY');
  assert.match(error.message, /budget of 3 requests per day/);
  assert.is(posts(servers[0]), 3);
});

test('several base URLs form a cluster: if one server is killed, the other answers', async ({ start, servers }) => {
  const client = await start({
    providers: { farm: { base_url: servers.map(({ url }) => `${url}/v1`), default_model: 'm' } },
  });
  const request = { route: 'provider:farm' };
  assert.is((await ask(client, request)).chosen, 'farm');
  const home = posts(servers[0]) === 1 ? 0 : 1;
  await servers[home]?.close();
  assert.is((await ask(client, request)).attempts.length, 1);
  assert.is(posts(servers[1 - home]), 1);
  const [record] = (await client.providers()).filter(({ name }) => name === 'farm');
  assert.is(record?.endpoints.length, 2);
});

test.run();
