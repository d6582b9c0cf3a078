/** What pages of listed and other origins get, in the shape in which Chromium sends their requests. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import { ask, type Answer, type AskOptions } from './ask.ts';
import { hello, START, startScripted, text, type ScriptedListener } from './scripted.ts';

const APP = 'https://app.example.com';
const LOCAL = 'http://localhost:3000';
const EXTENSION = 'chrome-extension://abcdefghijklmnopabcdefghijklmnop';
const NOTES = 'app://obsidian.md';
const ADMIN = 'https://admin.example.com';
const FOREIGN = ['https://evil.example', 'https://app.example.com.evil.example', 'http://app.example.com', 'null', ''];

let listener: ScriptedListener;
test.before(async () => {
  const origins = [APP, { origin: LOCAL, scope: 'local' as const }, EXTENSION, NOTES];
  listener = await startScripted({ origins: [...origins, { origin: ADMIN, scope: 'admin' }] });
});
test.after(() => listener.stop());
test.before.each(() => {
  Object.assign(listener.world, { admits: 'admin', key: null });
  listener.backend.script = hello;
});

const CHAT = '/v1/chat/completions';
const HELLO = { messages: [{ role: 'user', content: 'hi' }] };
/** Headers that Chromium adds to a fetch of a page. */
const fetched = (origin: string): Record<string, string> => ({
  origin,
  'sec-fetch-site': 'cross-site',
  'sec-fetch-mode': 'cors',
  'sec-fetch-dest': 'empty',
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
});
/** What OpenAI's client with dangerouslyAllowBrowser adds to every request. */
const STAINLESS = ['arch', 'lang', 'os', 'package-version', 'retry-count', 'runtime', 'runtime-version', 'timeout'];

function preflight(origin: string, path = CHAT, more: Record<string, string> = {}): Promise<Answer> {
  const asked = ['authorization', 'content-type', ...STAINLESS.map((name) => `x-stainless-${name}`)];
  const headers = {
    ...fetched(origin),
    'access-control-request-method': 'POST',
    'access-control-request-headers': asked.join(','),
    ...more,
  };
  return ask(listener, path, { method: 'OPTIONS', headers });
}

function assertReadable({ headers }: Answer, origin: string, what = ''): void {
  assert.is(headers['access-control-allow-origin'], origin, what);
  assert.match(String(headers.vary), /\bOrigin\b/, what);
  assert.match(String(headers['access-control-expose-headers']), /x-request-id.*retry-after/, what);
  assert.is(headers['access-control-allow-credentials'], undefined, what);
}

function assertUnreadable({ headers }: Answer, what = ''): void {
  const found = Object.keys(headers).filter((name) => name.startsWith('access-control-'));
  assert.equal(found, [], what);
  assert.match(String(headers.vary), /\bOrigin$/, what);
}

test('a page of a listed origin posts after a preflight, which needs no key', async () => {
  for (const origin of [APP, LOCAL, EXTENSION, NOTES]) {
    listener.world.admits = null;
    const allowed = await preflight(origin);
    assert.is(allowed.status, 204, origin);
    assert.is(allowed.text, '');
    assertReadable(allowed, origin);
    assert.match(String(allowed.headers['access-control-allow-methods']), /GET, HEAD, POST, DELETE/);
    assert.is(allowed.headers['access-control-max-age'], '7200');
    assert.is(allowed.headers['access-control-allow-private-network'], undefined);

    listener.world.admits = 'admin';
    const answer = await ask(listener, CHAT, { headers: fetched(origin), body: HELLO });
    assert.is(answer.status, 200, answer.text);
    assertReadable(answer, origin);
  }
});

test('a preflight allows the headers of the official clients, and no wildcard', async () => {
  const asked = [
    'x-stainless-helper-method',
    'openai-organization',
    'anthropic-some-new-header',
    'x-fern-sdk-name',
    'x-evil',
    'X-Stainless-OS',
    'x-stainless-\u00e9',
  ].join(', ');
  const { headers } = await preflight(APP, '/v1/messages', { 'access-control-request-headers': asked });
  const allowed = String(headers['access-control-allow-headers']).split(', ');
  for (const name of ['authorization', 'x-api-key', 'content-type', 'anthropic-version', 'anthropic-beta'])
    assert.ok(allowed.includes(name), name);
  for (const name of ['anthropic-dangerous-direct-browser-access', 'x-stainless-helper-method', 'x-stainless-os'])
    assert.ok(allowed.includes(name), name);
  for (const name of ['openai-organization', 'anthropic-some-new-header', 'x-fern-sdk-name'])
    assert.ok(allowed.includes(name), name);
  assert.not.ok(allowed.some((name) => name === 'x-evil' || name.includes('*') || /[^\w-]/.test(name)));
});

test('a public page may reach this machine, where the browser asks for it', async () => {
  const asked = { 'access-control-request-private-network': 'true' };
  assert.is((await preflight(APP, CHAT, asked)).headers['access-control-allow-private-network'], 'true');
  assertUnreadable(await preflight('https://evil.example', CHAT, asked));
});

test('every route answers a listed page readably, whatever the status, and lets no other page read', async () => {
  for (const { method, path: pattern } of [...PUBLIC, { method: 'GET' as const, path: '/nowhere' }]) {
    // The stream of samples ends.
    const path = `${pattern.replace('*', 'tiny')}?count=1`;
    const options: AskOptions = { method, ...(method === 'GET' ? {} : { body: HELLO }) };
    assert.is((await preflight(APP, path)).status, 204, path);
    assertReadable(await ask(listener, path, { ...options, headers: fetched(APP) }), APP, path);
    for (const origin of FOREIGN) {
      const answer = await ask(listener, path, { ...options, headers: fetched(origin) });
      assertUnreadable(answer, `${path} ${origin}`);
      if (method !== 'GET') assert.is(answer.status, 403, `${path} ${origin}`);
      const asked = await preflight(origin, path);
      assert.is(asked.status, 403, `${path} ${origin}`);
      assertUnreadable(asked);
    }
  }
});

test('a simple request, which browsers send without a preflight, reaches no backend', async () => {
  listener.backend.requests.length = 0;
  const body = JSON.stringify(HELLO);
  const headers = { 'content-type': 'text/plain;charset=UTF-8' };
  const listed = await ask(listener, CHAT, { headers: { ...fetched(APP), ...headers }, body });
  assert.is(listed.status, 400);
  assertReadable(listed, APP);
  const foreign = await ask(listener, CHAT, { headers: { ...fetched('https://evil.example'), ...headers }, body });
  assert.is(foreign.status, 403);
  assertUnreadable(foreign);
  assert.equal(listener.backend.requests, []);
});

test('errors and streams are readable too', async () => {
  const open = { ...HELLO, stream: true };
  const whole = await ask(listener, CHAT, { headers: fetched(APP), body: open });
  assert.match(whole.text, /data: \[DONE\]/);
  assertReadable(whole, APP);

  listener.backend.script = async function* () {
    yield START;
    yield text('so far');
    throw new SvcError('ENGINE_CRASHED', 'the engine is gone');
  };
  const cut = await ask(listener, CHAT, { headers: fetched(APP), body: open });
  assert.is(cut.complete, false);
  assertReadable(cut, APP);

  listener.backend.script = async function* () {
    throw new SvcError('BUSY', 'too much to do', { retryAfterSeconds: 7 });
  };
  const busy = await ask(listener, CHAT, { headers: fetched(APP), body: HELLO });
  assert.equal([busy.status, busy.headers['retry-after']], [429, '7']);
  assertReadable(busy, APP);

  assertReadable(await ask(listener, CHAT, { method: 'PUT', headers: fetched(APP) }), APP, '405');
  assertReadable(await ask(listener, CHAT, { method: 'OPTIONS', headers: fetched(APP) }), APP, 'no preflight');
  const expecting = { ...fetched(APP), expect: 'magic' };
  assertReadable(await ask(listener, CHAT, { method: 'POST', headers: expecting, body: '{}' }), APP, '417');
  listener.world.admits = null;
  const refused = await ask(listener, CHAT, { headers: fetched(APP), body: HELLO });
  assert.is(refused.status, 401);
  assertReadable(refused, APP);
});

test('an origin limits what its pages may do, whatever the key', async () => {
  const scopeOf = async (origin: string): Promise<unknown> => {
    listener.backend.callers.length = 0;
    await ask(listener, CHAT, { headers: fetched(origin), body: HELLO });
    return listener.backend.callers[0]?.scope;
  };
  assert.equal([await scopeOf(APP), await scopeOf(LOCAL), await scopeOf(ADMIN)], ['inference', 'local', 'admin']);
  listener.world.admits = 'local';
  assert.equal([await scopeOf(APP), await scopeOf(ADMIN)], ['local', 'local'], 'a key is not widened');

  Object.assign(listener.world, { admits: 'admin', key: 'deploy' });
  const remove = (origin: string): Promise<Answer> =>
    ask(listener, '/api/delete', { method: 'DELETE', headers: fetched(origin), body: { model: 'tiny' } });
  const refused = await remove(APP);
  assert.is(refused.status, 403);
  assert.match(refused.text, /the origin of this page has the scope inference, but the route needs admin/);
  assert.is((await remove(ADMIN)).status, 200);

  const cloud = await ask(listener, CHAT, { headers: fetched(LOCAL), body: { ...HELLO, route: 'cloud' } });
  assert.is(cloud.status, 403, cloud.text);
});

test('a listed origin opens nothing to DNS rebinding', async () => {
  const headers = { ...fetched(APP), host: 'evil.example' };
  assert.is((await ask(listener, CHAT, { headers, body: HELLO })).status, 403);
  assert.is((await preflight(APP, CHAT, { host: 'evil.example' })).status, 403);
});

test('without listed origins no answer has a header of CORS', async () => {
  const closed = await startScripted();
  try {
    const answer = await ask(closed, '/v1/models', { headers: fetched(APP) });
    assert.is(answer.headers.vary, undefined);
    assert.is(answer.headers['access-control-allow-origin'], undefined);
    const headers = { ...fetched(APP), 'access-control-request-method': 'POST' };
    assert.is((await ask(closed, CHAT, { method: 'OPTIONS', headers })).status, 403);
  } finally {
    await closed.stop();
  }
});

test.run();
