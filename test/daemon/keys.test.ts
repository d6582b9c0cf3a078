/** Access to real daemons: adding and removing keys, bound addresses, and allowed hosts and origins. */
import { chmodSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { addKey, removeKey } from '../../src/home/key-file.ts';
import { PUBLIC } from '../../src/daemon/http/routes.ts';
import { ERRORS } from '../../src/protocol/errors.ts';
import { ask, type AskOptions } from '../http/ask.ts';
import { compiled } from '../support/compiled.ts';
import { assertExit } from '../support/exit.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import type { DaemonProcess } from '../support/daemon.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const entry = compiled(fileURLToPath(new URL('scripted-daemon.ts', import.meta.url)));
const CHAT = '/v1/chat/completions';
const HELLO = { messages: [{ role: 'user', content: 'hi' }] };

interface Context extends DaemonContext {
  keyFile: string;
}
const test = daemonSuite<Context>('keys');
test.before.each((context) => {
  context.keyFile = join(context.home.dir, 'data', 'keys.json');
});

async function start(context: Context, address?: string): Promise<{ daemon: DaemonProcess; port: number }> {
  const env = address === undefined ? {} : { SVC_HTTP_ADDR: address };
  const daemon = startIn(context, { entry, args: [], env });
  await daemon.settled();
  const { http } = await daemon.client.status();
  return { daemon, port: Number(http?.split(':').at(-1)) };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

test('on loopback no key is needed until one exists; adding and removing keys takes effect at once', async (context) => {
  const { daemon, port } = await start(context);
  const { keyFile } = context;
  const status = async (headers: Record<string, string> = {}, path = '/v1/models'): Promise<number> =>
    (await ask({ port }, path, { headers })).status;

  assert.is(await status(), 200);
  assert.is(await status(bearer('whatever-the-client-must-send')), 200, 'a client that cannot do without a key');

  const { key } = await addKey(keyFile, 'one', 'inference');
  assert.is(await status(), 401);
  assert.is(await status(bearer(key)), 200);
  assert.is(await status({ 'x-api-key': key }), 200);
  assert.is(await status(bearer(`${key}x`)), 401);
  assert.is(await status(bearer(key.slice(0, -1))), 401);
  assert.is(await status(bearer('')), 401);
  assert.is(await status({ authorization: `Basic ${Buffer.from(`:${key}`).toString('base64')}` }), 401);
  assert.is(await status({ ...bearer('wrong'), 'x-api-key': key }), 200, 'either may be the right one');
  assert.is(await status({ cookie: key }, `/v1/models?api_key=${key}`), 401, 'in a URL it would be logged');

  const chat = await ask({ port }, CHAT, { body: HELLO, headers: bearer(key) });
  assert.is(chat.status, 200, chat.text);
  assert.is((await ask({ port }, CHAT, { body: HELLO })).status, 401);

  const second = await addKey(keyFile, 'two', 'admin');
  assert.is(await status(bearer(second.key)), 200);
  assert.is(await status(bearer(key)), 200);
  await removeKey(keyFile, 'one');
  assert.is(await status(bearer(key)), 401);
  assert.is(await status(bearer(second.key), '/control/status'), 404, 'not over TCP, whatever the key');
  assert.is((await daemon.client.models()).length, 1, 'the control socket asks for none');

  await removeKey(keyFile, 'two');
  assert.is(await status(), 200);
  assert.equal(daemon.stray, []);
});

test('probes need no key, and show unauthenticated clients only the minimum', async (context) => {
  const { daemon, port } = await start(context);
  const { key } = await addKey(context.keyFile, 'one', 'inference');
  daemon.send({ engine: { status: 'fail', reason: 'planted.gguf is gone' } });
  await waitFor('the engine to be lost', async () => (await ask({ port }, '/readyz')).status === 503);
  assert.is((await ask({ port }, '/livez')).status, 200);
  const stranger = await ask({ port }, '/readyz?verbose');
  assert.match(stranger.text, /\[-\]engine failed: reason withheld\n/);
  assert.match((await ask({ port }, '/readyz?verbose', { headers: bearer(key) })).text, /planted\.gguf/);
  assert.is((await ask({ port }, '/v1/runtime/health')).status, 401);
  assert.is((await ask({ port }, '/metrics')).status, 401);
});

test('a damaged key file admits no client until it is repaired', async (context) => {
  const { daemon, port } = await start(context);
  const { key } = await addKey(context.keyFile, 'one', 'inference');
  const good = readFileSync(context.keyFile);
  const status = async (headers: Record<string, string> = {}): Promise<number> =>
    (await ask({ port }, '/v1/models', { headers })).status;
  assert.is(await status(bearer(key)), 200);

  writeFileSync(context.keyFile, '{"version":1,"keys":[');
  assert.is(await status(bearer(key)), 401);
  assert.is(await status(), 401);
  assert.is((await ask({ port }, '/livez')).status, 200);
  const complaints = daemon.log.filter(({ msg }) => msg.startsWith('the API keys cannot be read'));
  assert.is(complaints.length, 1, 'once, not with every request');
  writeFileSync(context.keyFile, good);
  assert.is(await status(bearer(key)), 200);
  if (process.platform !== 'win32') {
    chmodSync(context.keyFile, 0o666);
    assert.is(await status(bearer(key)), 401);
  }
});

test('a missing key file admits no client, even after a restart; an empty list disables keys', async (context) => {
  const { home, keyFile } = context;
  const first = await start(context);
  const { key } = await addKey(keyFile, 'one', 'inference');
  const status = async (port: number, headers: Record<string, string> = {}): Promise<number> =>
    (await ask({ port }, '/v1/models', { headers })).status;
  assert.is(await status(first.port, bearer(key)), 200);

  renameSync(keyFile, `${keyFile}.away`);
  assert.is(await status(first.port), 401);
  assert.is(await status(first.port, bearer(key)), 401);
  const record = await waitFor('the condition', async () => {
    const { conditions } = JSON.parse((await svc(['health', '--source', 'socket', '--json'], { home })).stdout);
    return conditions.find(({ name, status }: any) => name === 'api_keys' && status === 'warn');
  });
  assert.match(record.reason, /keys\.json is gone, .*svc key add NAME/);
  first.daemon.kill('SIGKILL');
  await first.daemon.exit;

  const second = await start(context);
  assert.is(await status(second.port), 401, 'after a restart');
  renameSync(`${keyFile}.away`, keyFile);
  assert.is(await status(second.port, bearer(key)), 200, 'it is back');
  rmSync(keyFile);
  assert.is(await status(second.port), 401);
  await addKey(keyFile, 'two', 'inference');
  assert.is(await status(second.port), 401, 'there is another');
  await removeKey(keyFile, 'two');
  assert.is(await status(second.port), 200, 'the last was taken away by its owner');
  rmSync(keyFile);
  assert.is(await status(second.port), 200, 'there were none in it');
});

test('a non-loopback address is not bound without a key: exit 78 with a hint', async (context) => {
  const { home, keyFile } = context;
  for (const address of ['0.0.0.0:0', '[::]:0']) {
    const refused = await svc(['serve'], { home, env: { SVC_HTTP_ADDR: address } });
    assertExit(refused, 78);
    assert.match(refused.stderr, /is reachable from other machines, but there is no API key/);
    assert.match(refused.stderr, /svc key add NAME/);
    assert.match(refused.stderr, /SVC_HTTP_ADDR=127\.0\.0\.1:7117 svc start/);
  }
  writeFileSync(join(home.dir, 'x'), '');
  await addKey(keyFile, 'one', 'inference');
  writeFileSync(keyFile, 'damaged');
  const damaged = await svc(['serve'], { home });
  assert.is(damaged.code, 78, 'not even on loopback: somebody wanted it closed');
  assert.match(damaged.stderr, /the file of API keys .* is damaged/);
});

test('bound to all addresses: every route requires a key, a known host and no foreign origin', async (context) => {
  const { key } = await addKey(context.keyFile, 'one', 'inference');
  const { port } = await start(context, '0.0.0.0:0');
  const routes = PUBLIC.map(({ method, path, scope }) => ({ method, path: path.replace('*', 'engine'), scope }));
  assert.ok(routes.length > 5);
  for (const { method, path, scope } of routes) {
    const options: AskOptions = { method, ...(method !== 'GET' ? { body: HELLO } : {}) };
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await ask({ port }, path, { ...options, headers })).status;
    assert.is(await status({ host: 'evil.example', ...bearer(key) }), 403, `${path}: DNS rebinding, with a key`);
    assert.is(await status({ host: 'evil.example' }), 403, `${path}: DNS rebinding`);
    const open = scope === 'none' || scope === 'probe';
    assert.is((await status({})) === 401, !open, `${path} without a key`);
    assert.is.not(await status(bearer(key)), 401, `${path} with a key`);
    if (method !== 'GET') {
      assert.is(await status({ origin: 'https://evil.example', ...bearer(key) }), 403, `${path}: a foreign page`);
      assert.is(await status({ origin: 'null', ...bearer(key) }), 403, `${path}: a sandboxed page`);
    }
  }

  const outer = Object.values(networkInterfaces())
    .flat()
    .find((address) => address?.family === 'IPv4' && !address.internal)?.address;
  if (outer !== undefined) {
    const from = { host: outer, port };
    assert.is((await ask(from, '/v1/models')).status, 401);
    assert.is((await ask(from, '/v1/models', { headers: bearer(key) })).status, 200);
    // After the last key is removed, remote clients can still connect but are not admitted.
    await removeKey(context.keyFile, 'one');
    assert.is((await ask(from, '/v1/models', { headers: bearer(key) })).status, 401);
    assert.is((await ask(from, '/livez')).status, 200);
  }
});

test('svc health over HTTP uses SVC_API_KEY, or says that it is needed', async (context) => {
  const { home } = context;
  const { key } = await addKey(context.keyFile, 'one', 'inference');
  await start(context, '0.0.0.0:0');
  const without = await svc(['health', '--json'], { home });
  assert.is(without.code, ERRORS.UNAUTHORIZED.exit);
  assert.match(JSON.parse(without.stderr).error.hint, /SVC_API_KEY/);
  const withKey = await svc(['health', '--json'], { home, env: { SVC_API_KEY: key } });
  assertExit(withKey, 0);
  assert.is(JSON.parse(withKey.stdout).status, 'ready');
  assertExit(await svc(['health', '--source', 'socket'], { home }), 0);
});

test('neither keys nor prompts are ever written to disk or log, whatever fails', async (context) => {
  const PROMPT = 'canary-prompt-7f3a';
  const WRONG = 'svc_canary-wrong-key-91bc';
  context.home = { ...context.home, env: { ...context.home.env, SVC_LOG_LEVEL: 'trace' } as never };
  const { daemon, port } = await start(context);
  const { key } = await addKey(context.keyFile, 'one', 'inference');
  const messages = [{ role: 'user', content: PROMPT }];
  const said: string[] = [];
  const send = async (path: string, options: AskOptions): Promise<void> => {
    said.push((await ask({ port }, path, options)).text);
  };
  for (const headers of [bearer(key), bearer(WRONG), { 'x-api-key': WRONG }, { authorization: `Basic ${WRONG}` }]) {
    await send(CHAT, { body: { messages }, headers });
    await send(CHAT, { body: { messages, stream: true }, headers });
    await send(CHAT, { body: { messages: PROMPT }, headers });
    await send(CHAT, { body: { messages, temperature: PROMPT, stop: [PROMPT] }, headers });
    await send(CHAT, {
      body: Buffer.from(`{"messages": "${PROMPT}`),
      headers: { ...headers, 'content-type': 'application/json' },
    });
    await send('/v1/models', { headers: { ...headers, host: WRONG } });
    await send('/readyz?verbose', { headers });
  }
  said.push((await ask({ port }, '/metrics', { headers: bearer(key) })).text);
  said.push((await svc(['health', '--json'], { home: context.home, env: { SVC_API_KEY: WRONG } })).stderr);
  said.push((await svc(['status', '--json'], { home: context.home })).stdout);
  daemon.send({ crash: true });
  await daemon.exit;

  const files = readdirSync(context.home.dir, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name), 'latin1'));
  const logged = daemon.log.map((line) => JSON.stringify(line));
  assert.ok(logged.length > 20 && files.length >= 3, 'there is something to look at');
  for (const text of [...said, ...files, ...logged, ...daemon.stray]) {
    for (const secret of [PROMPT, WRONG, key]) assert.not.ok(text.includes(secret), text.slice(0, 400));
  }
});

test.run();
