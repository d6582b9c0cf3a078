import { writeFileSync } from 'node:fs';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ControlClient } from '../../src/client/control-client.ts';
import { probeHttpHealth } from '../../src/client/http-probe.ts';
import { fetchJson, streamJson } from '../../src/client/request.ts';
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../src/protocol/generate.ts';
import { CLOSED_ADDRESS } from '../support/own-address.ts';
import { rejection } from '../support/errors.ts';
import { serveOnSocket, type UnixServer } from './unix-server.ts';

const REQUEST: GenerateRequest = { messages: [{ role: 'user', content: 'hi' }], sampling: {}, stop: [] };
const never = new AbortController().signal;

/** Registers a test against a server that answers with `handler`; the server is closed afterwards. */
function withServer(
  name: string,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
  check: (client: ControlClient, server: UnixServer) => Promise<void>,
): void {
  test(name, async () => {
    const server = await serveOnSocket(handler);
    try {
      await check(new ControlClient(server.socketPath), server);
    } finally {
      await server.close();
    }
  });
}

const json = (response: ServerResponse, status: number, body: unknown): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

async function collect(events: AsyncIterable<RouteEvent | GenerateEvent>): Promise<string[]> {
  const types: string[] = [];
  for await (const event of events) types.push(event.type);
  return types;
}

test('without a socket, or with a stale one, the daemon counts as not running', async () => {
  await rejection(() => new ControlClient('/nonexistent/svc.sock').status(), 'DAEMON_NOT_RUNNING');
  const server = await serveOnSocket(() => undefined);
  const file = join(dirname(server.socketPath), 'file');
  writeFileSync(file, '');
  await rejection(() => new ControlClient(file).status(), 'DAEMON_NOT_RUNNING');
  await server.close();
  await rejection(() => new ControlClient(server.socketPath).status(), 'DAEMON_NOT_RUNNING');
});

withServer(
  'an error keeps its code, message, hint and field',
  (_, response) => {
    json(response, 429, {
      id: 'x',
      error: { code: 'BUSY', message: 'full', hint: 'later', param: 'model', retry_after_seconds: 3 },
    });
  },
  async (client) => {
    for (const act of [() => client.models(), () => collect(client.generate(REQUEST))]) {
      const error = await rejection(act, 'BUSY', /^full$/);
      assert.is(error.hint, 'later');
      assert.is(error.param, 'model');
      assert.is(error.retryAfterSeconds, 3);
    }
  },
);

withServer(
  'after an abort no event is read, although it has arrived',
  (_, response) => {
    response.end('{"type":"text","text":"a"}\n{"type":"text","text":"b"}\n{"type":"finish","reason":"stop"}\n');
  },
  async (client) => {
    const controller = new AbortController();
    const types: string[] = [];
    const error = await rejection(async () => {
      for await (const { type } of client.generate(REQUEST, { signal: controller.signal })) {
        types.push(type);
        controller.abort(new Error('enough'));
      }
    }, 'CANCELLED');
    assert.match(String(error.cause), 'enough');
    assert.equal(types, ['text']);
  },
);

withServer(
  'an unknown code of a newer daemon is still an error',
  (_, response) => {
    json(response, 418, { error: { code: 'TEAPOT', message: 'short and stout' } });
  },
  async (client) => {
    await rejection(() => client.models(), 'INTERNAL', /short and stout/);
  },
);

withServer(
  'not ready is a result of a readiness request, and an error of any other',
  (_, response) => {
    json(response, 503, { status: 'not_ready', state: 'STARTING', conditions: [] });
  },
  async (client) => {
    assert.is((await client.ready()).state, 'STARTING');
    assert.is((await client.health()).status, 'not_ready');
    await rejection(() => client.status(), 'INTERNAL', /status 503/);
  },
);

withServer(
  'another program behind the socket is detected',
  (_, response) => void response.end('<html>'),
  async (client) => {
    await rejection(() => client.status(), 'INTERNAL', /not JSON/);
  },
);

withServer(
  'a daemon that does not answer, or stops mid-answer, is not ready',
  (request, response) => {
    if (request.url === '/half') response.writeHead(200).write('{');
  },
  async (client, { socketPath }) => {
    await rejection(() => client.ready(50), 'NOT_READY', /does not answer/);
    await rejection(() => fetchJson({ socketPath }, { path: '/half', timeoutMs: 50 }), 'NOT_READY', /does not answer/);
  },
);

withServer(
  'a timeout longer than a timer can be is a long one',
  (_, response) => void setTimeout(() => json(response, 200, { status: 'ready' }), 50),
  async (client, { socketPath }) => {
    const timeoutMs = 600 * 3_600_000;
    assert.is((await client.ready(timeoutMs)).status, 'ready');
    assert.is((await fetchJson({ socketPath }, { path: '/', timeoutMs })).status, 200);
  },
);

withServer(
  'events are delivered one by one, however the lines are cut',
  (_, response) => {
    const lines = Buffer.from(
      '{"type":"route","trace_id":"t"}\n{"type":"start"}\n{"type":"text","text":"é…"}\n\n{"type":"finish"}\n',
    );
    const send = (at: number): void => {
      if (at === lines.length) response.end();
      else response.write(lines.subarray(at, at + 1), () => setImmediate(send, at + 1));
    };
    send(0);
  },
  async (client) => {
    const events = [];
    for await (const event of client.generate(REQUEST)) events.push(event);
    assert.equal(
      events.map((event) => event.type),
      ['route', 'start', 'text', 'finish'],
    );
    assert.equal(events[2], { type: 'text', text: 'é…' });
  },
);

withServer(
  'an error event ends the stream with that error',
  (_, response) => {
    response.write('{"type":"text","text":"a"}\n');
    response.end('{"type":"error","id":"42","error":{"code":"ENGINE_CRASHED","message":"it died","hint":"again"}}\n');
  },
  async (client) => {
    const error = await rejection(() => collect(client.generate(REQUEST)), 'ENGINE_CRASHED', /it died/);
    assert.is(error.hint, 'again');
  },
);

withServer(
  'an internal error refers to its id in the log',
  (_, response) => void response.end('{"type":"error","id":"42","error":{"code":"INTERNAL","message":"broke"}}\n'),
  async (client) => {
    const error = await rejection(() => collect(client.generate(REQUEST)), 'INTERNAL');
    assert.match(error.hint ?? '', /42/);
  },
);

withServer(
  'a stream without its last event fails, whether closed cleanly or cut',
  (request, response) => {
    response.write('{"type":"text","text":"a"}\n', () => {
      if (request.url === HTTP_ROUTES.runtimeGenerate) response.end();
      else response.destroy();
    });
  },
  async (client) => {
    await rejection(() => collect(client.generate(REQUEST)), 'DAEMON_NOT_RUNNING', /before its answer was complete/);
    await rejection(
      async () => {
        for await (const _ of client.load('x', never));
      },
      'DAEMON_NOT_RUNNING',
      /before its answer was complete/,
    );
  },
);

test('aborting, or returning early, closes the connection', async () => {
  let closed = Promise.resolve<unknown>(undefined);
  const server = await serveOnSocket((_, response) => {
    closed = once(response, 'close');
    response.write('{"type":"start"}\n');
  });
  try {
    const client = new ControlClient(server.socketPath);
    for await (const _ of client.generate(REQUEST)) break;
    await closed;

    const controller = new AbortController();
    const error = await rejection(async () => {
      for await (const _ of client.generate(REQUEST, { signal: controller.signal })) controller.abort();
    }, 'CANCELLED');
    assert.instance(error, SvcError);
    await closed;
    await rejection(() => collect(client.generate(REQUEST, { signal: AbortSignal.abort() })), 'CANCELLED');
  } finally {
    await server.close();
  }
});

withServer(
  'requests have the method, path and JSON body that the daemon expects',
  (request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      json(response, 200, { method: request.method, url: request.url, type: request.headers['content-type'], body });
    });
  },
  async (client, { socketPath }) => {
    assert.equal(await client.status(), { method: 'GET', url: '/control/status', body: '' });
    await client.stop(5);
    for await (const sent of streamJson({ socketPath }, { method: 'POST', path: '/x', body: { text: 'é' } })) {
      assert.equal(sent, { method: 'POST', url: '/x', type: 'application/json', body: '{"text":"é"}' });
    }
  },
);

test('health over TCP returns the record, or reports that no daemon answers', async () => {
  const server = createServer((socket) => {
    socket.resume().end('HTTP/1.1 503 Service Unavailable\r\ncontent-length: 22\r\n\r\n{"status":"not_ready"}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  assert.equal(await probeHttpHealth(`127.0.0.1:${String(port)}`), { status: 'not_ready' });
  server.close();
  await rejection(() => probeHttpHealth(CLOSED_ADDRESS), 'DAEMON_NOT_RUNNING');
});

test.run();
