import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { childEnvironment } from '../../src/process/environment.ts';
import type { Condition } from '../../src/protocol/records.ts';
import { makeHome } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { isInstalled } from '../support/terminal.ts';
import { ask } from './ask.ts';
import { startScripted, type ScriptedListener } from './scripted.ts';

let listener: ScriptedListener;
test.before(async () => {
  listener = await startScripted();
});
test.after(() => listener.stop());

const condition = (name: Condition['name'], status: Condition['status']): Condition => ({
  name,
  status,
  reason: `why it is ${status}`,
  since: '2026-11-01T00:00:00Z',
});
const GOOD = [condition('engine', 'ok'), condition('memory', 'warn')];
const BAD = [condition('engine', 'fail'), condition('memory', 'ok')];

test.before.each(() => {
  listener.world.conditions = GOOD;
});

test('livez answers in every state', async () => {
  listener.world.conditions = BAD;
  const answer = await ask(listener, '/livez');
  assert.is(answer.status, 200);
  assert.equal(answer.json(), { status: 'ok' });
  assert.is(answer.headers['cache-control'], 'no-store');
  assert.match(String(answer.headers['x-request-id']), /^[0-9a-f]{32}$/);
  assert.is((await ask(listener, '/livez?verbose')).text, '[+]ping ok\nlivez check passed\n');
});

test('readyz is 200 with the record, or 503 with Retry-After and the same record', async () => {
  const ready = await ask(listener, '/readyz');
  assert.is(ready.status, 200);
  assert.is(ready.headers['retry-after'], undefined);
  assert.equal(ready.json(), { status: 'ready', state: 'READY', conditions: GOOD });

  listener.world.conditions = BAD;
  const notReady = await ask(listener, '/readyz');
  assert.is(notReady.status, 503);
  assert.is(notReady.headers['retry-after'], '1');
  assert.is(notReady.headers['cache-control'], 'no-store');
  assert.equal(notReady.json(), { status: 'not_ready', state: 'DEGRADED', conditions: BAD });
});

test('readyz?verbose has the format of the Kubernetes API server', async () => {
  const passed = await ask(listener, '/readyz?verbose');
  assert.is(passed.headers['content-type'], 'text/plain; charset=utf-8');
  assert.is(passed.text, '[+]engine ok\n[+]memory ok, with a warning: why it is warn\nreadyz check passed\n');

  listener.world.conditions = BAD;
  const failed = await ask(listener, '/readyz?verbose');
  assert.is(failed.status, 503);
  assert.is(failed.text, '[-]engine failed: why it is fail\n[+]memory ok\nreadyz check failed\n');
});

unless(
  isInstalled('kubectl', ['version', '--client']) ? undefined : 'there is no kubectl (Debian: kubernetes-client)',
  test,
)('kubectl reads readyz?verbose as that of an API server', async () => {
  const home = await makeHome();
  const kubectl = (path: string): Promise<{ stdout: string; stderr: string; code?: number }> =>
    promisify(execFile)('kubectl', ['--kubeconfig=/dev/null', `--server=${listener.url}`, 'get', '--raw', path], {
      // kubectl keeps a cache in HOME.
      env: childEnvironment({ HOME: home.dir, KUBECONFIG: undefined }),
    }).catch((error: unknown) => error as { stdout: string; stderr: string; code: number });

  const passed = await kubectl('/readyz?verbose');
  assert.is(passed.stdout, '[+]engine ok\n[+]memory ok, with a warning: why it is warn\nreadyz check passed\n');
  assert.is((await kubectl('/livez?verbose')).stdout, '[+]ping ok\nlivez check passed\n');
  listener.world.conditions = BAD;
  const failed = await kubectl('/readyz?verbose');
  assert.is(failed.code, 1);
  assert.match(failed.stderr, /ServiceUnavailable/);
  assert.is((await kubectl('/readyz?verbose&exclude=engine')).stdout.split('\n').at(-2), 'readyz check passed');
  await home.remove();
});

test('readyz?exclude ignores conditions, may be repeated, and reports unknown names', async () => {
  listener.world.conditions = BAD;
  const answer = await ask(listener, '/readyz?exclude=engine');
  assert.is(answer.status, 200);
  assert.equal(answer.json().conditions, [BAD[1]]);

  const both = await ask(listener, '/readyz?verbose&exclude=engine&exclude=memory&exclude=nose');
  assert.is(both.status, 200);
  assert.is(
    both.text,
    '[+]engine excluded: ok\n[+]memory excluded: ok\nwarn: no check is named "nose"\nreadyz check passed\n',
  );
});

test('readyz/NAME returns one condition', async () => {
  listener.world.conditions = BAD;
  const failed = await ask(listener, '/readyz/engine');
  assert.is(failed.status, 503);
  assert.is(failed.headers['retry-after'], '1');
  assert.equal(failed.json().conditions, [BAD[0]]);
  assert.is((await ask(listener, '/readyz/memory')).status, 200);
  assert.is((await ask(listener, '/readyz/memory?verbose')).text, '[+]memory ok\nreadyz check passed\n');

  const unknown = await ask(listener, '/readyz/nose');
  assert.is(unknown.status, 404);
  assert.is(unknown.json().error.code, 'NOT_FOUND');
  assert.is(unknown.json().id, unknown.headers['x-request-id']);
});

test('the health record follows readiness', async () => {
  assert.is((await ask(listener, '/v1/runtime/health')).status, 200);
  listener.world.conditions = BAD;
  const answer = await ask(listener, '/v1/runtime/health');
  assert.is(answer.status, 503);
  assert.is(answer.headers['retry-after'], '1');
  assert.equal(answer.json(), {
    status: 'not_ready',
    reason: null,
    conditions: BAD,
    models: [],
    providers: [],
  });
});

test('HEAD has the status and headers of GET and no body', async () => {
  for (const path of ['/livez', '/readyz', '/readyz?verbose', '/readyz/engine', '/v1/runtime/health', '/v1/models']) {
    for (const conditions of [GOOD, BAD]) {
      listener.world.conditions = conditions;
      const get = await ask(listener, path);
      const head = await ask(listener, path, { method: 'HEAD' });
      const comparable = ({ date: _, 'x-request-id': __, ...headers }: typeof get.headers): object => headers;
      assert.is(head.status, get.status, path);
      assert.equal(comparable(head.headers), comparable(get.headers), path);
      assert.is(head.text, '', path);
    }
  }
});

test('other methods get 405 with Allow, and their body is not read', async () => {
  for (const path of ['/livez', '/readyz', '/readyz/engine', '/v1/runtime/health']) {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      const answer = await ask(listener, path, { method });
      assert.is(answer.status, 405, `${method} ${path}`);
      assert.is(answer.headers.allow, 'GET, HEAD');
      assert.is(answer.json().error.code, 'METHOD_NOT_ALLOWED');
    }
  }
  const chat = await ask(listener, '/v1/chat/completions', { method: 'GET' });
  assert.is(chat.status, 405);
  assert.is(chat.headers.allow, 'POST');
  assert.is(chat.json().error.code, 'method_not_allowed', "in OpenAI's shape under /v1");
});

test('a GET with a body is answered without waiting for it', async () => {
  const answer = await ask(listener, '/livez', { method: 'GET', headers: { 'content-length': '1000' } });
  assert.is(answer.status, 200);
});

test.run();
