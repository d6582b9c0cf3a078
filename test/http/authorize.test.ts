/** Which caller may use which route. For the identification of callers see test/daemon/keys.test.ts. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { authorize, type RouteScope } from '../../src/daemon/http/authorize.ts';
import { CONTROL, PUBLIC } from '../../src/daemon/http/routes.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { CONTROL_CALLER, shareOf } from '../../src/protocol/caller.ts';
import { KEY_SCOPES, type KeyScope } from '../../src/protocol/keys.ts';
import { rejection } from '../support/errors.ts';
import { ask } from './ask.ts';
import { startScripted } from './scripted.ts';

async function decide(needed: RouteScope, may: KeyScope | null, key: string | null = null): Promise<boolean> {
  const caller = await authorize({ headers: {}, socket: { localAddress: '127.0.0.1' } }, needed, {
    admit: () => Promise.resolve(may && { scope: may, key }),
  });
  return caller !== null;
}

test('every scope grants what the table of scopes says', async () => {
  for (const [needed, scope] of KEY_SCOPES.flatMap((one) => KEY_SCOPES.map((other) => [one, other] as const))) {
    if (KEY_SCOPES.indexOf(scope) >= KEY_SCOPES.indexOf(needed)) assert.is(await decide(needed, scope), true);
    else await rejection(() => decide(needed, scope), 'FORBIDDEN', new RegExp(`scope ${scope}, .* needs ${needed}`));
  }
  await rejection(() => decide('admin_key', 'admin'), 'UNAUTHORIZED', /of scope admin, on this machine too/);
  await rejection(() => decide('admin_key', null), 'UNAUTHORIZED');
  assert.is(await decide('admin_key', 'admin', 'deploy'), true);
  await rejection(() => decide('admin_key', 'inference', 'laptop'), 'FORBIDDEN');
  await rejection(() => decide('inference', null), 'UNAUTHORIZED');
  await rejection(() => decide('admin', null), 'UNAUTHORIZED');
  assert.is(await decide('probe', null), false);
  assert.is(await decide('probe', 'inference'), true);
  assert.is(await decide('none', null), false);
});

test('liveness checks no key and depends on nothing', async () => {
  const never = { admit: () => new Promise<never>(() => undefined) };
  const req = { headers: {}, socket: {} };
  assert.is(await authorize(req, 'none', never), null);
});

test('the caller is the API key, or the address if no key is needed', async () => {
  const from = (key: string | null, remoteAddress?: string) =>
    authorize({ headers: {}, socket: { localAddress: '127.0.0.1', remoteAddress } }, 'inference', {
      admit: () => Promise.resolve({ scope: 'inference', key }),
    });
  const laptop = await from('laptop', '::ffff:10.0.0.7');
  assert.equal(laptop, { kind: 'key', name: 'laptop', address: '10.0.0.7', scope: 'inference' });
  const nobody = await from(null, '::1');
  assert.equal(nobody, { kind: 'address', name: null, address: '0:0:0:0::/64', scope: 'inference' });
  const gone = await from(null);
  assert.equal(gone, { kind: 'address', name: null, address: null, scope: 'inference' });
  assert.equal(
    [laptop, nobody, gone, CONTROL_CALLER].map((each) => shareOf(each!)),
    ['key:laptop', 'address:0:0:0:0::/64', 'address:', 'control'],
  );
});

test('the caller reaches the backend, whatever the request body claims', async () => {
  const listener = await startScripted();
  try {
    Object.assign(listener.world, { admits: 'inference', key: 'laptop' });
    const forged = { caller: { kind: 'control', scope: 'admin' }, share: 'key:other' };
    const chat = { ...forged, messages: [{ role: 'user', content: 'hi' }] };
    await ask(listener, '/v1/chat/completions', { body: chat });
    await ask(listener, '/v1/embeddings', { body: { ...forged, input: 'hi' } });
    const laptop = { kind: 'key', name: 'laptop', address: '127.0.0.1', scope: 'inference' };
    assert.equal(listener.backend.callers, [laptop, laptop]);
    for (const request of [...listener.backend.requests, ...listener.backend.embedRequests])
      assert.ok(!('caller' in request) && !('share' in request));
  } finally {
    await listener.stop();
  }
});

test('keys are accepted as Bearer, as x-api-key, or both', async () => {
  const given = async (headers: Record<string, string>): Promise<readonly string[]> => {
    let seen: readonly string[] = [];
    await authorize({ headers, socket: {} }, 'probe', {
      admit: (_, keys) => {
        seen = keys;
        return Promise.resolve(null);
      },
    });
    return seen;
  };
  assert.equal(await given({}), []);
  assert.equal(await given({ authorization: 'Bearer a' }), ['a']);
  assert.equal(await given({ authorization: 'bearer  a' }), ['a']);
  assert.equal(await given({ 'x-api-key': 'b' }), ['b']);
  assert.equal(await given({ authorization: 'Bearer a', 'x-api-key': 'b' }), ['a', 'b']);
  for (const authorization of ['', 'Bearer', 'Bearer ', 'Basic YTpi', 'Bearer a b', 'a']) {
    assert.equal(await given({ authorization }), [], authorization);
  }
});

test('the daemon is administered over TCP by administrators only, and never by /control', async () => {
  assert.equal(
    PUBLIC.filter(({ path }) => path.startsWith('/control')),
    [],
  );
  const { runtimeModels, runtimeGenerate, runtimeEmbed, runtimeRerank, health, signIn } = HTTP_ROUTES;
  const others: readonly string[] = [runtimeModels, runtimeGenerate, runtimeEmbed, runtimeRerank, health, signIn];
  for (const { path, scope } of PUBLIC)
    if (path.startsWith('/v1/runtime/') && !others.includes(path))
      assert.ok(['admin', 'admin_key'].includes(scope), path);
  assert.equal(
    PUBLIC.filter(({ scope }) => scope === 'admin_key').map(({ path }) => path),
    [
      '/v1/runtime/import',
      '/v1/runtime/keys',
      '/v1/runtime/keys/remove',
      '/api/pull',
      '/api/copy',
      '/api/create',
      '/api/delete',
    ],
  );
  assert.ok(CONTROL.every(({ scope }) => scope === 'admin'));
  assert.equal(
    PUBLIC.filter(({ scope }) => scope === 'none' || scope === 'probe').map(({ path }) => path),
    ['/livez', '/readyz', '/readyz/*', '/health', '/', '/console/*', '/v1/runtime/sign-in'],
  );
});

test('requests without a key get 401 on every path except probes, before the body is read', async () => {
  const listener = await startScripted();
  listener.world.admits = null;
  try {
    for (const path of [
      '/v1/models',
      '/v1/models/tiny',
      '/v1/runtime/health',
      '/metrics',
      '/nowhere',
      '/control/status',
    ]) {
      const answer = await ask(listener, path);
      assert.is(answer.status, 401, path);
      assert.is(answer.headers['www-authenticate'], 'Bearer');
      assert.not.match(answer.text, /tiny/);
    }
    const post = await ask(listener, '/v1/chat/completions', { body: 'x'.repeat(100_000) });
    assert.is(post.status, 401);
    assert.is(post.json().error.type, 'authentication_error');
    assert.is(post.json().error.code, 'invalid_api_key');
    assert.equal(listener.backend.requests, []);
    assert.is((await ask(listener, '/livez')).status, 200);
    const ready = await ask(listener, '/readyz?verbose');
    assert.is(ready.status, 200);

    listener.world.conditions = [
      { name: 'engine', status: 'fail', reason: 'the model secret.gguf is gone', since: '2026-11-01T00:00:00Z' },
    ];
    for (const path of ['/readyz', '/readyz?verbose', '/readyz/engine', '/readyz/engine?verbose']) {
      const answer = await ask(listener, path);
      assert.is(answer.status, 503, path);
      assert.match(answer.text, /engine/);
      assert.match(answer.text, /reason withheld/);
      assert.not.match(answer.text, /secret/);
    }
    listener.world.admits = 'inference';
    assert.match((await ask(listener, '/readyz')).text, /secret/);
    listener.world.conditions = [
      { name: 'providers', status: 'warn', reason: 'acme: secret.example', since: '2026-11-01T00:00:00Z' },
    ];
    assert.not.match((await ask(listener, '/readyz')).text, /secret/);
    listener.world.admits = 'admin';
    assert.match((await ask(listener, '/readyz')).text, /secret/);
  } finally {
    await listener.stop();
  }
});

test.run();
