/** The limits of the gRPC listener: sizes, numbers and times of requests and connections. */
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { status, type ServiceError } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../support/wait.ts';
import { HEADERS, PARTIAL, raw, starter } from './listener-support.ts';
import { failureOf, readFailure } from './scripted.ts';

const start = starter(test);

test('a request that is too large, and too many at once', async () => {
  // The limit is on the memory of a request: its bytes plus a constant per value.
  const grpc = await start({ grpc: { messageBytes: 150_000, requestsBytes: 40_000 } });
  const client = grpc.connect();
  const ask = (bytes: number) =>
    client.stream('Inference/Generate', { messages: [{ role: 'user', content: 'x'.repeat(bytes) }] });
  assert.equal((await failureOf(ask(200_000))).status, status.RESOURCE_EXHAUSTED);
  assert.equal((await failureOf(ask(130_000))).reason, 'BUSY');
  for (let i = 0; i < 3; i += 1) for await (const _ of ask(85_000));
  assert.is(grpc.backend.requests.length, 3, 'what was held is given back');
});

test('incomplete requests are limited in number and in time', async () => {
  const grpc = await start({ grpc: { arriving: 1 } });
  const session = await raw(grpc);
  const gone = session.request(HEADERS).on('error', () => undefined);
  gone.write(PARTIAL);
  const client = grpc.connect();
  const busy = await waitFor('the only place to be taken', () =>
    client.unary('Runtime/GetHealth').then(
      () => false as const,
      (error: unknown) => readFailure(error as ServiceError),
    ),
  );
  assert.equal([busy.status, busy.reason, busy.retrySeconds], [status.RESOURCE_EXHAUSTED, 'BUSY', 1]);
  // A client that disconnects frees its slot.
  gone.close();
  await waitFor('its place', () => client.unary('Runtime/GetHealth'));
  session.close();

  const hasty = await start({ grpc: { arriving: 1, requestMs: 300 } });
  const other = await raw(hasty);
  const slow = other.request(HEADERS).on('error', () => undefined);
  slow.write(PARTIAL);
  const [headers] = (await once(slow, 'response')) as [Record<string, unknown>];
  assert.is(headers['grpc-status'], String(status.DEADLINE_EXCEEDED));
  assert.is((await hasty.connect().unary('Runtime/GetHealth')).status, 'ready', 'its place is free again');
  other.close();
});

test('a deadline beyond 24.8 days counts as none', async () => {
  const grpc = await start();
  const session = await raw(grpc);
  for (const timeout of ['720H', '99999999H', '43200M', '2592000S']) {
    const call = session.request({ ...HEADERS, 'grpc-timeout': timeout }).on('error', () => undefined);
    const answered = once(call.resume(), 'response');
    call.write(PARTIAL.subarray(0, 4));
    // The ping is answered after the call has begun; a timer that fires at once has fired then.
    await new Promise((resolve) => session.ping(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    call.end(Buffer.alloc(1));
    const [headers] = (await answered) as [Record<string, unknown>];
    assert.is(headers['grpc-status'], undefined, timeout);
  }
  session.close();
});

test('reflection stops reading requests while its answers are not read', async () => {
  const grpc = await start();
  const session = await raw(grpc);
  const stream = session.request({ ...HEADERS, ':path': '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo' });
  stream.on('error', () => undefined);
  // list_services: "*"
  const question = Buffer.from([0, 0, 0, 0, 3, 0x3a, 1, 0x2a]);
  stream.write(Buffer.concat(new Array<Buffer>(200_000).fill(question)));
  const client = grpc.connect();
  await waitFor('the first answers', () => stream.readableLength > 0);
  for (let i = 0; i < 50; i += 1) await client.unary('Runtime/GetHealth');
  assert.ok(stream.writableNeedDrain, 'it read all questions');
  session.destroy();
});

test('concurrent calls per connection are limited', async () => {
  const grpc = await start({ grpc: { streams: 7 } });
  const session = await raw(grpc);
  assert.is(session.remoteSettings.maxConcurrentStreams, 7);
  session.close();
});

test('a silent connection, or one without HTTP/2, is closed', async () => {
  const grpc = await start({ grpc: { prefaceMs: 100 } });
  const closed = async (first?: string): Promise<string> => {
    const socket: Socket = connectTcp(grpc.port, '127.0.0.1');
    socket.on('error', () => undefined);
    if (first !== undefined) socket.write(first);
    let answer = '';
    socket.on('data', (data) => (answer += data.toString('latin1')));
    await once(socket, 'close');
    return answer;
  };
  assert.is(await closed(), '');
  assert.is(await closed('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'), '');
  assert.is(await closed('\u0016\u0003\u0001'), '');
  await closed('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and then garbage');
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
});

test('an idle connection is closed after a time; connections above the limit are refused', async () => {
  const grpc = await start({ grpc: { idleMs: 100, connections: 2 } });
  const sessions = await Promise.all([raw(grpc), raw(grpc)]);
  const third = connectTcp(grpc.port, '127.0.0.1');
  third.on('error', () => undefined).resume();
  await once(third, 'close');
  await waitFor('both to be closed', () => sessions.every(({ destroyed }) => destroyed));
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
});

test('the very first call may be a large one', async () => {
  const grpc = await start();
  const content = 'x'.repeat(3 * 1024 * 1024);
  for await (const _ of grpc.connect().stream('Inference/Generate', { messages: [{ role: 'user', content }] }));
  assert.is(grpc.backend.requests[0]?.messages[0]?.content.length, content.length);
});

test.run();
