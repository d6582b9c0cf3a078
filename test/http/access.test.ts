import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { networkInterfaces } from 'node:os';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { ask, dial, open, readAll } from './ask.ts';
import { startScripted, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({ allowedHosts: ['svc.example'] });
});
test.after(() => listener.stop());

const HELLO = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] });
const JSON_TYPE = { 'content-type': 'application/json' };

test('on every route, the Host header must be an address of this server or an allowed name', async () => {
  const port = String(listener.port);
  const let_in = [
    'localhost',
    'LOCALHOST',
    `localhost:${port}`,
    `127.0.0.1:${port}`,
    '127.0.0.1:8080',
    '[::1]',
    `[::1]:${port}`,
    `0.0.0.0:${port}`,
    `[::]:${port}`,
  ];
  const refused = [
    'evil.example',
    `evil.example:${port}`,
    '10.0.0.1',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
  ];
  const garbage = [
    'localhost:',
    'localhost:x',
    'local host',
    '[::1',
    'user@localhost',
    'localhost/path',
    '127.0.0.1:123456',
    '0',
  ];
  for (const host of [...let_in, 'svc.example', 'SVC.example:1']) {
    assert.is((await ask(listener, '/livez', { headers: { host } })).status, 200, host);
  }
  for (const path of ['/livez', '/readyz', '/v1/runtime/health', '/v1/models', '/nowhere']) {
    for (const host of [...refused, ...garbage]) {
      const answer = await ask(listener, path, { headers: { host } });
      assert.is(answer.status, 403, `${path} ${host}`);
    }
  }
  const answer = await ask(listener, '/v1/models', { headers: { host: 'evil.example' } });
  assert.is(answer.json().error.code, 'forbidden');
  assert.is(answer.json().error.type, 'permission_error');
});

test('a request without Host is refused', async () => {
  for (const version of ['1.0', '1.1']) {
    const socket = await dial(listener.port);
    socket.write(`GET /livez HTTP/${version}\r\nconnection: close\r\n\r\n`);
    assert.match(await readAll(socket), /^HTTP\/1\.1 400 [\s\S]*Host header is missing/);
  }
});

test('bound to all addresses, the local address of the connection is an accepted Host', async () => {
  const wide = await startScripted({ host: '0.0.0.0' });
  try {
    assert.is((await ask(wide, '/livez', { headers: { host: 'evil.example' } })).status, 403);
    const outer = Object.values(networkInterfaces())
      .flat()
      .find((address) => address?.family === 'IPv4' && !address.internal)?.address;
    if (outer === undefined) return;
    assert.is((await ask(wide, '/livez', { headers: { host: outer } })).status, 403, 'not by loopback');
    const { request } = await import('node:http');
    const status = await new Promise((resolve, reject) => {
      request({ host: outer, port: wide.port, path: '/livez', agent: false }, (res) => resolve(res.resume().statusCode))
        .on('error', reject)
        .end();
    });
    assert.is(status, 200);
  } finally {
    await wide.stop();
  }
});

test('a page of another origin cannot post; pages of this server and of allowed names can', async () => {
  const port = String(listener.port);
  const post = async (origin: string, host = `localhost:${port}`): Promise<number> => {
    return (await ask(listener, '/v1/chat/completions', { body: HELLO, headers: { ...JSON_TYPE, origin, host } }))
      .status;
  };
  for (const origin of [
    `http://localhost:${port}`,
    `http://LOCALHOST:${port}`,
    'https://svc.example',
    'http://svc.example:99',
  ]) {
    assert.is(await post(origin), 200, origin);
  }
  const foreign = [
    'null',
    'http://evil.example',
    'http://localhost:3000',
    'http://localhost',
    `http://127.0.0.1:${port}`,
    'file://',
    '',
    'http://localhost.evil.example',
    `http://0.0.0.0:${port}`,
  ];
  for (const origin of [
    ...foreign,
    `http://localhost:${port}.evil.example`,
    `http://evil.example#@localhost:${port}`,
  ]) {
    assert.is(await post(origin), 403, origin);
  }
  assert.is(await post('http://evil.example', `0.0.0.0:${port}`), 403);
  assert.is(await post('http://0.0.0.0:3000', `0.0.0.0:${port}`), 403);
  assert.is(listener.backend.requests.length, 4, 'what was refused never reached a backend');
});

test('a GET of scope admin that a page could have sent is refused, whatever the Host', async () => {
  const port = String(listener.port);
  const routes = PUBLIC.filter(({ method, scope }) => method === 'GET' && scope.startsWith('admin'));
  assert.ok(routes.length >= 8, String(routes.length));
  // A page's GET to these has a Sec-Fetch-Site; so without one it is a program's.
  const told = ['localhost', `LOCALHOST:${port}`, `127.0.0.1:${port}`, '[::1]'];
  const untold = [`0.0.0.0:${port}`, '0.0.0.0', `[::]:${port}`, 'svc.example', 'SVC.example:1'];
  const statusOf = async (path: string, headers: Record<string, string>, method = 'GET'): Promise<number> => {
    const response = await open(listener, path, { method, headers });
    response.destroy();
    return response.statusCode ?? 0;
  };
  for (const { path } of routes) {
    for (const host of told) assert.is.not(await statusOf(path, { host }), 403, `${path} ${host}`);
    for (const host of untold) {
      for (const headers of [{}, { authorization: 'Basic eDp5' }, { accept: 'image/*', 'accept-language': 'en' }]) {
        assert.is(await statusOf(path, { host, ...headers }), 403, `${path} ${host} ${JSON.stringify(headers)}`);
      }
      assert.is(await statusOf(path, { host }, 'HEAD'), 403, `HEAD ${path} ${host}`);
      for (const headers of [
        { 'x-api-key': 'any' },
        { 'x-api-key': '' },
        { authorization: 'Bearer any' },
        { 'sec-fetch-site': 'none' },
      ]) {
        assert.is.not(await statusOf(path, { host, ...headers }), 403, `${path} ${JSON.stringify(headers)}`);
      }
    }
    for (const host of [...told, ...untold]) {
      for (const headers of [
        { 'sec-fetch-site': 'cross-site' },
        { origin: 'http://evil.example' },
        { origin: 'null' },
      ]) {
        assert.is(await statusOf(path, { host, ...headers }), 403, `${path} ${JSON.stringify(headers)}`);
      }
    }
  }
  const refused = await ask(listener, '/v1/runtime/doctor', { headers: { host: '0.0.0.0' } });
  assert.match(refused.json().error.hint, /connect to 127\.0\.0\.1/);
});

test('any other method of scope admin needs no header: browsers send an Origin with it', async () => {
  const port = String(listener.port);
  const routes = PUBLIC.filter(({ method, scope }) => method !== 'GET' && scope === 'admin');
  assert.ok(routes.length >= 5, String(routes.length));
  for (const { method, path } of routes) {
    for (const host of [`0.0.0.0:${port}`, 'svc.example', `127.0.0.1:${port}`]) {
      const statusOf = async (headers: Record<string, string>): Promise<number> =>
        (await ask(listener, path, { method, body: {}, headers: { host, ...headers } })).status;
      assert.is.not(await statusOf({}), 403, `${method} ${path} ${host}`);
      assert.is(await statusOf({ origin: 'http://evil.example' }), 403, `${method} ${path} ${host}`);
      assert.is(await statusOf({ origin: 'null' }), 403, `${method} ${path} ${host}`);
    }
  }
});

test("the GETs of Ollama's clients are answered with the Host 0.0.0.0", async () => {
  for (const path of ['/api/version', '/api/tags', '/api/ps', '/']) {
    assert.is((await ask(listener, path, { headers: { host: `0.0.0.0:${String(listener.port)}` } })).status, 200, path);
  }
});

test('reading needs no Origin, and no answer allows another origin to read it', async () => {
  const answer = await ask(listener, '/v1/models', { headers: { origin: 'http://evil.example' } });
  assert.is(answer.status, 200);
  assert.is(answer.headers['access-control-allow-origin'], undefined);
  assert.is(answer.headers['x-content-type-options'], 'nosniff');
});

test('a body without a JSON content type is refused, because an HTML form could send it', async () => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'text/json',
    'application/jsonx',
    '',
  ]) {
    const answer = await ask(listener, '/v1/chat/completions', {
      body: HELLO,
      headers: type === '' ? {} : { 'content-type': type },
    });
    assert.is(answer.status, 400, type);
    assert.is(answer.json().error.hint, 'send content-type: application/json');
  }
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;x=y',
    'application/vnd.api+json',
  ]) {
    const answer = await ask(listener, '/v1/chat/completions', { body: HELLO, headers: { 'content-type': type } });
    assert.is(answer.status, 200, type);
  }
});

test("Ollama's routes that change nothing take undeclared JSON, but not from a page", async () => {
  const asks = [
    ['/api/chat', HELLO],
    ['/api/generate', '{"prompt": "hi"}'],
    ['/api/embed', '{"input": "hi"}'],
    ['/api/embeddings', '{"prompt": "hi"}'],
    ['/api/show', '{}'],
  ] as const;
  const origin = `http://localhost:${String(listener.port)}`;
  for (const [path, fields] of asks) {
    const body = JSON.stringify({ model: 'tiny', ...(JSON.parse(fields) as object) });
    for (const type of ['', 'text/plain', 'application/x-www-form-urlencoded']) {
      const declared = type === '' ? {} : { 'content-type': type };
      assert.is((await ask(listener, path, { body, headers: declared })).status, 200, `${path} ${type}`);
      for (const page of [{ origin, host: origin.slice('http://'.length) }, { 'sec-fetch-site': 'none' }])
        assert.is((await ask(listener, path, { body, headers: { ...declared, ...page } })).status, 400);
      const foreign = { ...declared, 'sec-fetch-site': 'cross-site' };
      assert.is((await ask(listener, path, { body, headers: foreign })).status, 403);
    }
  }
});

test('the control socket checks neither Host nor Origin', async () => {
  const control = await startScripted({ control: true });
  try {
    const answer = await ask(control, '/v1/chat/completions', {
      body: HELLO,
      headers: { host: 'anything', origin: 'http://x' },
    });
    assert.is(answer.status, 200);
  } finally {
    await control.stop();
  }
});

test.run();
