/** The page's files, and sign-in links: by a clock of the test here, with a real daemon in console-daemon.test.ts. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Sessions, SESSION_MS, TOKEN_MS } from '../../src/daemon/console/sessions.ts';
import { addKey } from '../../src/home/key-file.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { rejection } from '../support/errors.ts';
import { ask } from '../http/ask.ts';
import { startScripted, type ScriptedListener } from '../http/scripted.ts';

const START_AT = Date.parse('2026-11-01T12:00:00Z');
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const FILES = { 'index.html': '<!doctype html>', 'console.js': 'go()', 'console.css': 'a{}', 'icon.svg': '<svg/>' };

const dir = mkdtempSync(join(tmpdir(), 'svc-p-'));
let now = START_AT;
let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted({ now: () => now, page: dir });
});
test.after(async () => {
  await listener.stop();
  rmSync(dir, { recursive: true });
});

test('a build without a page says so; other programs notice nothing', async () => {
  const page = await ask(listener, '/', { headers: BROWSER });
  assert.equal([page.status, page.headers['content-type']], [404, 'text/plain; charset=utf-8']);
  assert.match(page.text, /^svc is running, but this build has no console/);
  assert.is((await ask(listener, '/console/console.js')).status, 404);
  assert.is((await ask(listener, '/')).text, 'Ollama is running');
});

test('a browser gets the page, which may load and reach nothing else', async () => {
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(dir, name), text);
  const page = await ask(listener, '/', { headers: BROWSER });
  assert.equal([page.status, page.text], [200, FILES['index.html']]);
  assert.is(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.is(page.headers['vary'], 'Accept, Origin');
  const types = { 'console.js': 'text/javascript', 'console.css': 'text/css', 'icon.svg': 'image/svg+xml' };
  const others = await Promise.all(Object.keys(types).map((name) => ask(listener, `/console/${name}`)));
  assert.equal(
    others.map(({ headers }) => headers['content-type']),
    Object.values(types).map((type) => `${type}; charset=utf-8`),
  );
  for (const { status, headers } of [page, ...others]) {
    assert.is(status, 200);
    const policy = String(headers['content-security-policy']).split('; ');
    for (const rule of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"])
      assert.ok(policy.includes(rule), rule);
    assert.not.match(policy.join(), /unsafe|http|\*/);
    assert.equal(
      ['x-content-type-options', 'referrer-policy', 'cross-origin-opener-policy', 'cache-control'].map(
        (name) => headers[name],
      ),
      ['nosniff', 'no-referrer', 'same-origin', 'no-cache'],
    );
    const again = await ask(listener, '/console/console.js', { headers: { 'if-none-match': String(headers.etag) } });
    assert.is(again.status, headers['content-type'] === 'text/javascript; charset=utf-8' ? 304 : 200);
  }
  for (const name of ['index.html', 'nothing.js', '..%2Fcli%2Fmain.cjs', '%2e%2e%2fcommit', 'constructor'])
    assert.is((await ask(listener, `/console/${name}`)).status, 404, name);
});

async function signIn(token: unknown): Promise<{ status: number; body: any }> {
  const answer = await ask(listener, HTTP_ROUTES.signIn, { body: { token } });
  assert.is(answer.headers['cache-control'], answer.status === 400 ? undefined : 'no-store');
  return { status: answer.status, body: answer.json() };
}

const tokenOf = async (): Promise<string> =>
  new URL((await listener.services.console.link(false)).url).hash.replace('#signin=', '');

test('a token works once, within a minute', async () => {
  const { url, expires_at, file } = await listener.services.console.link(false);
  assert.match(url, /^http:\/\/127\.0\.0\.1:7117\/#signin=[\w-]{43}$/);
  assert.equal([expires_at, file], [new Date(START_AT + TOKEN_MS).toISOString(), null]);
  const token = url.split('=')[1] ?? '';
  const first = await signIn(token);
  assert.is(first.status, 200);
  assert.match(first.body.key, /^svc_[\w-]{43}$/);
  assert.is(first.body.expires_at, new Date(START_AT + SESSION_MS).toISOString());

  const late = await tokenOf();
  now += TOKEN_MS;
  for (const [why, refused] of [
    ['used', token],
    ['expired', late],
    ['made up', 'x'.repeat(43)],
    ['a key', first.body.key],
  ] as const) {
    const { status, body } = await signIn(refused);
    assert.equal([status, body.error.code, body.error.param], [401, 'UNAUTHORIZED', 'token'], why);
    assert.match(body.error.hint, /svc open/);
    assert.not.ok(JSON.stringify(body).includes(refused));
  }
  for (const invalid of [undefined, '', 7, 'x'.repeat(129)]) assert.is((await signIn(invalid)).status, 400);
});

test('a session ends after twelve hours, and the oldest make room for new ones', () => {
  let at = START_AT;
  const sessions = new Sessions(() => at);
  const open = (): string => sessions.signIn(sessions.newToken().token).key;
  assert.ok(sessions.isEmpty);
  const first = open();
  assert.ok(sessions.has(first) && !sessions.has(`${first}x`) && !sessions.isEmpty);
  at += SESSION_MS - 1;
  assert.ok(sessions.has(first));
  at += 1;
  assert.ok(!sessions.has(first) && sessions.isEmpty);

  const keys = Array.from({ length: 65 }, open);
  assert.equal(
    keys.filter((key) => !sessions.has(key)),
    [keys[0]],
  );
  const tokens = Array.from({ length: 17 }, () => sessions.newToken().token);
  assert.throws(() => sessions.signIn(tokens[0] ?? ''), /has been used/);
  assert.ok(sessions.signIn(tokens[1] ?? '').key);
});

test('no API key may be called console', async () => {
  const path = join(dir, 'keys.json');
  for (const name of ['console', 'Console'])
    await rejection(() => addKey(path, name, 'local'), 'INVALID_REQUEST', /svc open/);
});

test.run();
