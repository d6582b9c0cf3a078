import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { drain } from '../../src/daemon/lifecycle.ts';
import { createListener } from '../../src/daemon/http/server.ts';
import { Router } from '../../src/routing/router.ts';
import { cloud } from '../backends/cloud/cloud-support.ts';
import { startUpstream } from '../backends/cloud/upstream.ts';
import { waitFor } from '../support/wait.ts';
import { ask, open } from './ask.ts';
import { aborted, FINISH, hello, scriptedServices, START, startScripted, text } from './scripted.ts';

const PATH = '/v1/chat/completions';
const BODY = { messages: [{ role: 'user', content: 'hi' }], stream: true };

test('while draining: running streams finish, new requests get 503, health answers, connections are closed', async () => {
  const go = new EventTarget();
  const listener = await startScripted({
    script: async function* () {
      yield START;
      yield text('one ');
      await once(go, 'go');
      yield text('two');
      yield FINISH;
    },
  });
  try {
    const running = await open(listener, PATH, { body: BODY });
    listener.router.drain();

    const refused = await ask(listener, PATH, { body: BODY });
    assert.is(refused.status, 503);
    assert.is(refused.headers['retry-after'], '1');
    assert.is(refused.json().error.code, 'not_ready');
    const live = await ask(listener, '/livez', { headers: { connection: 'keep-alive' } });
    assert.is(live.status, 200);
    assert.is(live.headers.connection, 'close');

    go.dispatchEvent(new Event('go'));
    let body = '';
    for await (const chunk of running) body += String(chunk);
    assert.match(body, /"content":"two"[\s\S]*\[DONE\]/);
    await listener.router.idle();
  } finally {
    await listener.stop();
  }
});

test('a closed server ends kept-alive connections as soon as their answer is sent', async () => {
  const go = new EventTarget();
  const listener = await startScripted({
    script: async function* () {
      yield START;
      yield text('one');
      await once(go, 'go');
      yield FINISH;
    },
  });
  const agent = new Agent({ keepAlive: true });
  const req = request({
    port: listener.port,
    host: '127.0.0.1',
    path: PATH,
    method: 'POST',
    agent,
    headers: { 'content-type': 'application/json' },
  });
  req.end(JSON.stringify(BODY));
  const [res] = await once(req, 'response');
  const closed = once(listener.server, 'close');
  listener.server.close();
  const from = performance.now();
  go.dispatchEvent(new Event('go'));
  res.resume();
  await closed;
  assert.ok(performance.now() - from < 60_000, 'not the 75 seconds of an idle connection');
  agent.destroy();
});

test('destroying the connections aborts running requests', async () => {
  let reason: unknown;
  const listener = await startScripted({
    script: async function* (_, { signal }) {
      yield START;
      yield text('x');
      reason = await aborted(signal);
      throw reason;
    },
  });
  const res = await open(listener, PATH, { body: BODY });
  res.on('error', () => undefined).resume();
  await listener.stop();
  await listener.router.idle();
  assert.is((reason as { code: string }).code, 'CANCELLED');
});

test('a listener still works after an error in a handler', async () => {
  const listener = await startScripted({
    script: async function* () {
      throw new Error('bug');
    },
  });
  try {
    for (let i = 0; i < 3; i += 1) assert.is((await ask(listener, PATH, { body: BODY })).status, 500);
    listener.backend.script = hello;
    assert.is((await ask(listener, PATH, { body: BODY })).status, 200);
  } finally {
    await listener.stop();
  }
});

test('at a stop, a client whose provider has not begun to answer gets 503', async () => {
  const upstream = await startUpstream(() => undefined);
  const { backend } = cloud(upstream.url);
  const router = new Router(new Map([['acme', backend]]));
  const { services } = scriptedServices();
  const server = createListener({ services: { ...services, router }, control: false }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const asked = ask(server.address() as AddressInfo, PATH, { body: { ...BODY, model: 'acme/small' } });
    await waitFor('the request', () => upstream.asked.length === 1);
    await drain({
      router,
      backends: [backend],
      servers: [server],
      grpc: { close: () => Promise.resolve() },
      timeoutMs: 10,
      hurry: new AbortController().signal,
      log: services.log,
    });
    const { status, json } = await asked;
    assert.equal([status, json().error.code, upstream.asked.length], [503, 'not_ready', 1]);
  } finally {
    server.closeAllConnections();
    await upstream.close();
  }
});

test.run();
