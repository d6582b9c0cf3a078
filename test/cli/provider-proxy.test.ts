/** `svc provider test` and `svc doctor` reach a provider as requests do: through the proxy of the environment. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderTestStep } from '../../src/protocol/routes.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { svc, type SvcResult } from '../support/svc.ts';

interface Context {
  home: Home;
  servers: Server[];
  /** First lines of the requests to the proxy. */
  tunnels: string[];
  /** Runs a command with the proxy in its environment. */
  run(env: Record<string, string>, ...args: string[]): Promise<SvcResult>;
}

const HOST = 'cloudy.invalid';
const NO_VARIABLES = Object.fromEntries(
  ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [
    [name, undefined],
    [name.toLowerCase(), undefined],
  ]),
);
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

const test = suite<Context>('proxy of a provider');
test.before(async (context) => {
  const home = (context.home = await makeHome());
  const [key, cert] = [join(home.dir, 'key.pem'), join(home.dir, 'cert.pem')];
  const kind = ['-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', `/CN=${HOST}`];
  const files = ['-addext', `subjectAltName=DNS:${HOST}`, '-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', ...kind, ...files], { stdio: 'ignore' });
  const provider = createHttps({ key: readFileSync(key), cert: readFileSync(cert) }, (_request, answer) => {
    answer.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[{"id":"small"}]}');
  }).listen(0, '127.0.0.1');
  context.tunnels = [];
  const proxy = createServer().listen(0, '127.0.0.1');
  proxy.on('connect', ({ url = '' }, socket: Socket) => {
    context.tunnels.push(url);
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    const onward = connect(portOf(provider), '127.0.0.1');
    socket.pipe(onward).pipe(socket);
    for (const [end, other] of [
      [socket, onward],
      [onward, socket],
    ] as const)
      end.on('error', () => undefined).on('close', () => other.destroy());
  });
  context.servers = [provider, proxy];
  await Promise.all(context.servers.map(async (server) => server.listening || (await once(server, 'listening'))));
  context.run = async (env, ...args) => {
    context.tunnels.length = 0;
    const HTTPS_PROXY = `http://127.0.0.1:${String(portOf(proxy))}`;
    return await svc(args, { home, env: { ...NO_VARIABLES, HTTPS_PROXY, NODE_EXTRA_CA_CERTS: cert, ...env } });
  };
  const set = ['--base-url', `https://${HOST}/v1`, '--api-key-stdin'];
  assertExit(await svc(['provider', 'set', 'cloudy', ...set], { home, input: 'sk-cloudy\n' }), 0);
});
test.after(async ({ home, servers }) => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await home.remove();
});

const stepsOf = ({ stdout }: SvcResult): string[] =>
  (JSON.parse(stdout) as { steps: ProviderTestStep[] }).steps.map(({ step, status }) => `${step} ${status}`);

test('provider test leaves name and connection to the proxy, and asks through it', async ({ run, tunnels }) => {
  const tried = await run({}, 'provider', 'test', 'cloudy', '--json');
  assertExit(tried, 0);
  assert.equal(stepsOf(tried), ['key ok', 'dns skip', 'connect skip', 'models ok', 'answer skip']);
  assert.equal(tunnels, [`${HOST}:443`]);
});

test('a host in NO_PROXY is tested without the proxy', async ({ run, tunnels }) => {
  const tried = await run({ NO_PROXY: `other.example .${HOST}` }, 'provider', 'test', 'cloudy', '--json');
  assertExit(tried, 69);
  assert.equal(stepsOf(tried), ['key ok', 'dns fail']);
  assert.equal(tunnels, []);
});

test('a proxy whose URL is invalid fails the step that needs it', async ({ run }) => {
  const tried = await run({ HTTPS_PROXY: 'http://' }, 'provider', 'test', 'cloudy', '--json');
  assertExit(tried, 69);
  assert.equal(stepsOf(tried).at(-1), 'models fail');
});

test('doctor reaches a provider through the proxy', async ({ run, tunnels }) => {
  const { stdout } = await run({}, 'doctor', '--json');
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; detail: string }[] };
  const check = checks.find(({ name }) => name === 'providers');
  assert.is(check?.status, 'ok', check?.detail);
  assert.ok(tunnels.includes(`${HOST}:443`));
});

test.run();
