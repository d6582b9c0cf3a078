/** `svc open` against a real daemon: the link, the file for the browser, and the session that it gives. */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { addKey, removeKey } from '../../src/home/key-file.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask, type Answer } from '../http/ask.ts';
import { assertExit } from '../support/exit.ts';
import { daemonSuite, startIn, type DaemonContext } from '../support/daemon-suite.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const test = daemonSuite('svc open');
const NO_DISPLAY = { DISPLAY: undefined, WAYLAND_DISPLAY: undefined, SSH_CONNECTION: undefined };

async function start(context: DaemonContext): Promise<{ port: number; keyFile: string }> {
  const keyFile = join(context.home.dir, 'data', 'keys.json');
  const daemon = await startIn(context).answering();
  const http = await waitFor('the address', async () => (await daemon.client.status()).http);
  return { port: Number(http.split(':').at(-1)), keyFile };
}

const signIn = (port: number, url: string): Promise<Answer> =>
  ask({ port }, HTTP_ROUTES.signIn, { body: { token: new URL(url).hash.replace('#signin=', '') } });

test('without a display it prints the link, which gives a session that is shown as console', async (context) => {
  const { port, keyFile } = await start(context);
  const printed = await svc(['open', '--no-start'], { home: context.home, env: NO_DISPLAY });
  assertExit(printed, 0);
  assert.match(printed.stderr, /within a minute; it works once/);
  const url = printed.stdout.trim();
  assert.ok(url.startsWith(`http://127.0.0.1:${String(port)}/#signin=`), url);

  await addKey(keyFile, 'other', 'local');
  const { key } = (await signIn(port, url)).json() as { key: string };
  const headers = { authorization: `Bearer ${key}` };
  const models = (as: Record<string, string>): Promise<Answer> => ask({ port }, '/v1/models', { headers: as });
  assert.is((await models({})).status, 401);
  assert.is((await models(headers)).status, 200);
  assert.is((await signIn(port, url)).status, 401, 'a second time');

  await ask({ port }, HTTP_ROUTES.chatCompletions, { headers, body: { messages: 'not a list' } });
  const [daemon] = context.running;
  const line = await waitFor('the log line', () => daemon?.log.find((each) => each['key'] === 'console'));
  assert.is(line.msg, 'request failed');
  const text = JSON.stringify(daemon?.log);
  assert.not.ok(text.includes(key) || text.includes(url.split('=')[1] ?? ''));

  // The owner of the daemon gets in while the key file cannot be used, to see why.
  writeFileSync(keyFile, 'damaged');
  assert.is((await models(headers)).status, 200);
  writeFileSync(keyFile, '{"version":1,"keys":[]}');
  await addKey(keyFile, 'again', 'local');
  await removeKey(keyFile, 'again');
  assert.is((await models(headers)).status, 200);
});

test('on a desktop the browser gets a file of this user alone, never the link itself', async (context) => {
  if (process.platform !== 'linux') return;
  const { port } = await start(context);
  const bin = join(context.home.dir, 'bin');
  const seen = join(bin, 'seen');
  mkdirSync(bin);
  writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$@" > ${seen}.new && mv ${seen}.new ${seen}\n`, {
    mode: 0o700,
  });
  const env = { ...NO_DISPLAY, DISPLAY: ':99', PATH: `${bin}:/usr/bin:/bin` };
  const opened = await svc(['open', '--no-start'], { home: context.home, env });
  assert.equal([opened.code, opened.stdout], [0, ''], opened.stderr);
  await waitFor('the opener', () => existsSync(seen));
  const path = readFileSync(seen, 'utf8').trim();
  assert.ok(path.startsWith(context.home.dir) && !path.includes('signin'), path);
  assert.is(statSync(path).mode & 0o777, 0o600);
  const [, url = ''] = /url=(http[^"]+)"/.exec(readFileSync(path, 'utf8')) ?? [];
  assert.ok(opened.stderr.includes(url), 'for a browser that may not read the file');
  assert.is((await signIn(port, url)).status, 200);
  await waitFor('the file to be removed', () => !existsSync(path));

  const over = await svc(['open', '--no-start'], { home: context.home, env: { ...env, SSH_CONNECTION: '1' } });
  assert.match(over.stdout, /^http:/);
  const printed = await svc(['open', '--print', '--no-start'], { home: context.home, env });
  assert.equal([printed.stdout.split('=').length, printed.stderr], [2, '']);
});

test('without a daemon', async ({ home }) => {
  assertExit(await svc(['open', '--no-start'], { home, env: NO_DISPLAY }), 3);
});

test.run();
