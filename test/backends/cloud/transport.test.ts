/** Which redirects a transport follows, which targets it refuses, and what it sends through a proxy. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttps } from 'node:https';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Transport, type Reply } from '../../../src/backends/cloud/transport.ts';
import type { WireRequest } from '../../../src/backends/cloud/wire.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import { CLOSED_ADDRESS } from '../../support/own-address.ts';
import { rejection } from '../../support/errors.ts';
import { KEY } from './cloud-support.ts';
import { startUpstream, type Upstream } from './upstream.ts';

type Listen = (serve: (socket: Socket) => void) => Promise<string>;

interface Context {
  upstream: Upstream;
  elsewhere: Upstream;
  transports: Transport[];
  open: (baseUrl: string, isDeclared?: boolean) => Transport;
  /** Starts a raw TCP server and returns its address. */
  listen: Listen;
  closers: (() => void)[];
}

const test = suite<Context>('transport');
test.before.each(async (here) => {
  here.upstream = await startUpstream((turn) => turn.json(200, { ok: true }));
  here.elsewhere = await startUpstream((turn) => turn.json(200, { ok: true }));
  here.transports = [];
  here.open = (baseUrl, isDeclared = true) => {
    const transport = new Transport({ baseUrl, isDeclared, idleTimeoutMs: 60_000 });
    here.transports.push(transport);
    return transport;
  };
  here.closers = [];
  here.listen = async (serve) => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => undefined));
      serve(socket);
    }).listen(0, '127.0.0.1');
    here.closers.push(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    await once(server, 'listening');
    return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  };
});
test.after.each(async ({ upstream, elsewhere, transports, closers }) => {
  for (const close of closers) close();
  for (const transport of transports) await transport.destroy(new SvcError('CANCELLED', 'the test is over'));
  await upstream.close();
  await elsewhere.close();
});

const GET: WireRequest = { path: '/models', headers: { authorization: `Bearer ${KEY}` }, body: null };
const POST: WireRequest = { ...GET, path: '/chat/completions', body: { prompt: 'secret' } };

function send(transport: Transport, request: WireRequest, hasKey = true): Promise<Reply> {
  return transport.send(request, { signal: new AbortController().signal, hasKey, traceId: 'trace-1' });
}

/** Asserts a refusal. The address need not exist: a request that passes the guard fails later with another error. */
async function refused(transport: Transport, hasKey: boolean, why: RegExp): Promise<void> {
  const error = await rejection(() => send(transport, GET, hasKey), 'PROVIDER_FAILED', why);
  assert.is(error.retryable, false);
}

test('a redirect within the origin is followed with method, body and key', async ({ upstream, open }) => {
  for (const status of [301, 302, 307, 308]) {
    upstream.script((turn) => {
      if (turn.request.path.startsWith('/v1/')) turn.json(status, {}, { location: '/v2/here?x=1' });
      else turn.json(200, {});
    });
    assert.is((await send(open(`${upstream.url}/v1`), POST)).status, 200);
    const last = upstream.asked.at(-1);
    assert.is(last?.method, 'POST');
    assert.is(last?.path, '/v2/here?x=1');
    assert.is(last?.headers.authorization, `Bearer ${KEY}`);
    assert.equal(last?.body, POST.body);
  }
});

test('three redirects are followed, a fourth is refused', async ({ upstream, open }) => {
  let left = 3;
  upstream.script((turn) => (left-- > 0 ? turn.json(307, {}, { location: '/again' }) : turn.json(200, {})));
  assert.is((await send(open(upstream.url), GET)).status, 200);
  left = 4;
  await rejection(() => send(open(upstream.url), GET), 'PROVIDER_FAILED', /redirects too many times/);
});

test('a prompt is never sent to another origin', async ({ upstream, elsewhere, open }) => {
  for (const status of [301, 302, 303, 307, 308]) {
    upstream.script((turn) => turn.json(status, {}, { location: `${elsewhere.url}/v1` }));
    const error = await rejection(
      () => send(open(upstream.url), POST),
      'PROVIDER_FAILED',
      /sends prompts only to the configured origin/,
    );
    assert.ok(error.message.includes(elsewhere.url));
    assert.is(error.retryable, false);
  }
  assert.is(elsewhere.asked.length, 0);
});

test('a redirect to another origin cannot reach this machine or its network', async (here) => {
  const { upstream, elsewhere, open } = here;
  for (const location of [
    elsewhere.url,
    elsewhere.url.replace('127.0.0.1', 'localhost'),
    elsewhere.url.replace('127.0.0.1', '2130706433'),
    elsewhere.url.replace('127.0.0.1', '[::ffff:127.0.0.1]'),
    'https://127.0.0.1/',
    'http://169.254.169.254/latest/meta-data/',
    'https://[fd00:ec2::254]/',
    'https://metadata.google.internal/',
    'https://10.0.0.1/',
    'http://1.1.1.1/',
    'file:///etc/passwd',
  ]) {
    upstream.script((turn) => turn.json(302, {}, { location }));
    await refused(open(upstream.url), true, /leads to|invalid URL/);
  }
  assert.is(elsewhere.asked.length, 0);
});

test('which addresses an endpoint may have depends on who configured it', async ({ upstream, open }) => {
  const { port } = new URL(upstream.url);
  for (const host of ['127.0.0.1', 'localhost', '2130706433', '[::ffff:127.0.0.1]']) {
    await refused(open(`http://${host}:${port}`, false), false, /leads to this machine/);
    await refused(open(`https://${host}:${port}`, false), true, /leads to this machine/);
    if (host !== '[::ffff:127.0.0.1]') assert.is((await send(open(`http://${host}:${port}`), GET)).status, 200);
  }
  await refused(open('https://192.168.0.1', false), true, /a private network/);
  await refused(open('http://192.168.0.1'), true, /sends no key over plain http/);
  await refused(open('http://1.1.1.1'), false, /plain http/);
  for (const host of ['169.254.169.254', '0.0.0.0', '[fd00:ec2::254]', 'metadata.google.internal', '224.0.0.1']) {
    await refused(open(`https://${host}`), false, /a forbidden address/);
  }
});

test('an invalid URL is reported as such', async ({ open }) => {
  for (const url of ['', 'ftp://x', 'nothing']) await rejection(() => send(open(url), GET), 'CONFIG_INVALID');
});

test('connection failures are reported with their cause', async ({ open, listen }) => {
  const error = await rejection(
    () => send(open(`http://${CLOSED_ADDRESS}`), GET),
    'PROVIDER_FAILED',
    /connection refused/,
  );
  assert.is(error.retryable, true);

  const rude = await listen((socket) => socket.once('data', () => socket.end('220 mail.example ESMTP\r\n')));
  await rejection(() => send(open(`http://${rude}`), GET), 'PROVIDER_FAILED', /does not speak HTTP/);
  await rejection(() => send(open(`https://${rude}`), GET), 'PROVIDER_FAILED', /does not speak TLS/);

  const curt = await listen((socket) => socket.once('data', () => socket.destroy()));
  await rejection(() => send(open(`http://${curt}`), GET), 'PROVIDER_FAILED', /lost/);
  await rejection(() => send(open('https://nothing.invalid'), GET), 'PROVIDER_FAILED', /cannot resolve/);
});

test('an untrusted certificate is refused, whatever the environment sets', async ({ open }) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-tls-'));
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const kind = ['-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1'];
  execFileSync('openssl', ['req', ...kind, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
  let asked = 0;
  const server = createHttps({ key: readFileSync(key), cert: readFileSync(cert) }, (_req, res) => {
    asked += 1;
    res.end('{}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const said = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  try {
    const transport = open(`https://127.0.0.1:${String(port)}`);
    const error = await rejection(
      () => send(transport, GET),
      'PROVIDER_FAILED',
      /certificate of 127\.0\.0\.1 is not trusted/,
    );
    assert.match(error.hint ?? '', /NODE_EXTRA_CA_CERTS/);
    assert.is(error.retryable, false);
    assert.is(asked, 0);
  } finally {
    if (said === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = said;
    server.closeAllConnections();
    server.close();
    rmSync(dir, { recursive: true });
  }
});

test('a proxy gets requests to the internet and none to this machine or its network', async ({
  upstream,
  open,
  listen,
}) => {
  const tunnels: string[] = [];
  const proxy = await listen((socket) => {
    socket.once('data', (head: Buffer) => {
      tunnels.push(head.toString().split('\r\n')[0] ?? '');
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    });
  });
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy', 'NO_PROXY', 'no_proxy'];
  const before = names.map((name) => process.env[name]);
  for (const name of names) Reflect.deleteProperty(process.env, name);
  process.env['HTTP_PROXY'] = process.env['HTTPS_PROXY'] = `http://${proxy}`;
  process.env['NO_PROXY'] = 'direct.invalid';
  try {
    assert.is((await send(open(upstream.url), GET)).status, 200);
    assert.is((await send(open(upstream.url.replace('127.0.0.1', 'localhost')), GET)).status, 200);
    const { port } = new URL(upstream.url);
    await rejection(() => send(open(`https://localhost:${port}`), GET), 'PROVIDER_FAILED', /TLS/);
    await rejection(() => send(open('https://direct.invalid', false), GET), 'PROVIDER_FAILED', /cannot resolve/);
    await refused(open('https://169.254.169.254', false), true, /a forbidden address/);
    assert.equal(tunnels, []);
    await rejection(() => send(open('https://api.example.invalid', false), POST), 'PROVIDER_FAILED');
    assert.equal(tunnels, ['CONNECT api.example.invalid:443 HTTP/1.1']);
  } finally {
    for (const [index, name] of names.entries()) {
      const value = before[index];
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    }
  }
});

test.run();
