/** Hostile clients on the gRPC port, with small limits. */
import { once } from 'node:events';
import { connect as connectHttp2, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { status } from '@grpc/grpc-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ErrorLine } from '../../src/daemon/contain.ts';
import { aborted, FINISH, START, text } from '../http/scripted.ts';
import { waitFor } from '../support/wait.ts';
import {
  CANCEL,
  callFields,
  callHeaders,
  headerBlock,
  END_HEADERS,
  frame,
  FRAME,
  messageFrames,
  opening,
  reset,
} from './frames.ts';
import { definitions, failureOf, type ScriptedGrpc } from './scripted.ts';
import { starter } from './listener-support.ts';

const { NGHTTP2_ENHANCE_YOUR_CALM: ENHANCE_YOUR_CALM } = constants;
const GENERATE = '/svc.v1.Inference/Generate';
const HEALTH = '/svc.v1.Runtime/GetHealth';
const REQUEST = { messages: [{ role: 'user', content: 'x' }] };

const sessions: (ClientHttp2Session | Socket)[] = [];
test.after.each(() => {
  for (const session of sessions.splice(0)) session.destroy();
});
const start = starter(test);

async function openSession(
  { address, port }: ScriptedGrpc,
  settings: object = {},
  localAddress = '127.0.0.1',
): Promise<ClientHttp2Session> {
  const session = connectHttp2(`http://${address}`, {
    settings,
    createConnection: () => connectTcp({ port, host: '127.0.0.1', localAddress }),
  });
  sessions.push(session);
  session.on('error', () => undefined);
  await once(session, 'remoteSettings');
  return session;
}

function call(session: ClientHttp2Session, path: string): ClientHttp2Stream {
  const fields = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  return session.request(fields).on('error', () => undefined);
}

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

const encode = (request: object): Buffer => definitions.encode('svc.v1.GenerateRequest', request);

/** HEADERS frames of streams that are reset in the same packet. */
const resetAtOnce: readonly [what: string, headers: Buffer][] = [
  ['no content type', callHeaders(1, '/', { 'content-type': null })],
  ['a foreign content type', callHeaders(1, HEALTH, { 'content-type': 'text/plain' })],
  ['an unknown method', callHeaders(1, '/no.Such/Method')],
  ['a known method', callHeaders(1, HEALTH)],
  [
    'CONNECT',
    frame(
      FRAME.headers,
      END_HEADERS,
      1,
      headerBlock([
        [':method', 'CONNECT'],
        [':authority', 'evil.com:80'],
      ]),
    ),
  ],
  [
    'a content type given twice',
    frame(FRAME.headers, END_HEADERS, 1, headerBlock([...callFields(HEALTH), ['content-type', 'application/grpc']])),
  ],
  ['an invalid timeout', callHeaders(1, HEALTH, { 'grpc-timeout': 'soon' })],
];

for (const [what, headers] of resetAtOnce) {
  test(`a stream with ${what} that is reset at once affects no other stream`, async () => {
    const grpc = await start();
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown): void => void uncaught.push(error);
    process.on('uncaughtException', onUncaught);
    try {
      const socket = connectTcp(grpc.port, '127.0.0.1');
      sessions.push(socket);
      socket.on('error', () => undefined);
      // The ping is answered after everything before it was processed.
      const answered = new Promise<void>((resolve) => {
        let bytes = Buffer.alloc(0);
        socket.on('data', (chunk: Buffer) => {
          bytes = Buffer.concat([bytes, chunk]);
          if (bytes.includes('12345678')) resolve();
        });
        socket.once('close', () => resolve());
      });
      socket.write(Buffer.concat([opening(), headers, reset(1), frame(FRAME.ping, 0, 0, Buffer.from('12345678'))]));
      await answered;
      assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
      assert.equal(uncaught, []);
    } finally {
      process.off('uncaughtException', onUncaught);
    }
    assert.equal(
      grpc.logged.filter(({ level }) => level === 'fatal' || level === 'error'),
      [],
    );
  });
}

test('an exception in a connection handler ends only that connection, and repeated ones are logged as one line', async () => {
  const grpc = await start({
    script: () => {
      throw new Error('not to be seen');
    },
  });
  // Makes the daemon's own code throw where no caller catches it.
  let isBroken = true;
  grpc.services.metrics.callEnded = () => {
    if (isBroken) throw new TypeError('a planted bug');
  };
  const other = await openSession(grpc);
  for (let i = 0; i < 20; i += 1) {
    const session = await openSession(grpc);
    const closed = once(session, 'close');
    call(session, HEALTH).end(framed(Buffer.alloc(0)));
    await closed;
  }
  assert.not.ok(other.destroyed, 'the others stay');
  isBroken = false;
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
  const lines = grpc.logged.filter(({ msg }) => msg === 'a connection failed and was closed');
  assert.equal(
    lines.map(({ level }) => level),
    ['warn'],
  );
});

test('the one log line for repeated errors has their number', () => {
  const lines: unknown[] = [];
  const warn = (fields: unknown): void => void lines.push(fields);
  const line = new ErrorLine({ warn } as unknown as ConstructorParameters<typeof ErrorLine>[0], 'x');
  const error = new Error('e');
  for (let i = 0; i < 1000; i += 1) line.write(error);
  assert.equal(lines, [{ err: error, errors_before: 0 }]);
});

test('a complete message without end of stream: its slot and bytes time out and are freed', async () => {
  const bytes = encode({ messages: [{ role: 'user', content: 'x'.repeat(95_000) }] });
  const limits = { arriving: 2, requestsBytes: 100_000 };
  const holdBoth = async (grpc: ScriptedGrpc): Promise<ClientHttp2Stream[]> => {
    const session = await openSession(grpc);
    const held = [call(session, GENERATE), call(session, GENERATE)];
    for (const stream of held) stream.write(framed(bytes));
    return held;
  };
  const patient = await start({ grpc: limits });
  await holdBoth(patient);
  const other = patient.connect();
  await waitFor('both places to be taken', async () => {
    const { reason } = await failureOf(other.unary('Runtime/GetHealth')).catch(() => ({ reason: '' }));
    return reason === 'BUSY';
  });

  const grpc = await start({ grpc: { ...limits, requestMs: 400 } });
  const held = await holdBoth(grpc);
  const ends = held.map((stream) => once(stream.resume(), 'close'));
  const statuses = held.map((stream) => once(stream, 'response'));
  const client = grpc.connect();
  for (const [headers] of await Promise.all(statuses)) {
    assert.is(headers['grpc-status'], String(status.DEADLINE_EXCEEDED));
  }
  // The daemon ended the requests, not the client.
  await Promise.all(ends);
  for await (const _ of client.stream('Inference/Generate', REQUEST));
  assert.is(grpc.backend.requests.length, 1, 'nothing was answered that was not complete');
});

test('one address cannot hold all places of arriving requests', async () => {
  const grpc = await start({ grpc: { arriving: 4 } });
  const statusOf = async (stream: ClientHttp2Stream): Promise<unknown> => {
    const [headers] = (await once(stream.resume(), 'response')) as [Record<string, unknown>];
    return headers['grpc-status'] ?? 'answered';
  };
  const greedy = await openSession(grpc);
  const held = Array.from({ length: 3 }, () => call(greedy, GENERATE));
  for (const stream of held) stream.write(framed(encode(REQUEST)));
  const busy = String(status.RESOURCE_EXHAUSTED);
  await waitFor('three places to be taken', async () => {
    const extra = call(greedy, HEALTH);
    extra.end(framed(Buffer.alloc(0)));
    return (await statusOf(extra)) === busy;
  });

  const other = await openSession(grpc, {}, '127.0.0.2');
  const asked = call(other, HEALTH);
  asked.end(framed(Buffer.alloc(0)));
  assert.is(await statusOf(asked), 'answered', 'the last place is left to others');

  held[0]!.close();
  await waitFor('the place to be given back', async () => {
    const again = call(greedy, HEALTH);
    again.end(framed(Buffer.alloc(0)));
    return (await statusOf(again)) === 'answered';
  });
});

test('bytes of arriving requests count towards the total limit', async () => {
  const grpc = await start({ grpc: { requestsBytes: 100_000 } });
  const session = await openSession(grpc);
  const bytes = encode({ messages: [{ role: 'user', content: 'x'.repeat(125_000) }] });
  const first = call(session, GENERATE);
  first.write(framed(bytes));
  const client = grpc.connect();
  const small = { messages: [{ role: 'user', content: 'y'.repeat(95_000) }] };
  await waitFor('the first to be counted', async () => {
    const { reason } = await failureOf(client.stream('Inference/Generate', small)).catch(() => ({ reason: '' }));
    return reason === 'BUSY';
  });
  first.close();
  await waitFor('them to be given back', async () => {
    for await (const _ of client.stream('Inference/Generate', small));
    return true;
  });
});

test('more messages, values or nesting levels than HTTP allows are refused before decoding', async () => {
  const grpc = await start();
  const session = await openSession(grpc);
  const refusal = async (message: Buffer): Promise<Record<string, unknown>> => {
    const stream = call(session, GENERATE);
    const response = once(stream.resume(), 'response');
    stream.end(framed(message));
    const [headers] = (await response) as [Record<string, unknown>];
    return headers;
  };
  const deep = (levels: number): string => '[{"a":'.repeat(levels / 2) + '1' + '}]'.repeat(levels / 2);
  const schema = (json: string): Buffer => encode({ ...REQUEST, format: { type: 'json_schema', schema: json } });
  const tools = (json: string): Buffer => encode({ ...REQUEST, tools: [{ name: 'a', parameters: json }] });
  const many = `{"a":[${'0,'.repeat(100_001)}0]}`;
  const wrong: readonly [what: string, message: Buffer, details: RegExp][] = [
    ['empty messages', Buffer.alloc(500_000, Buffer.from([0x12, 0])), /messages has more than 10000 messages/],
    ['empty stop strings', Buffer.alloc(500_000, Buffer.from([0x2a, 0])), /stop has more than 100000 values/],
    ['unknown fields', Buffer.alloc(500_000, Buffer.from([0x98, 0x7d, 0])), /more than 100000 values/],
    ['groups in groups', Buffer.alloc(500_000, 0x0b), /not a valid protobuf message/],
    ['groups of unknown fields', Buffer.alloc(500_000, Buffer.from([0x9b, 0x7d])), /not a valid protobuf message/],
    ['messages as numbers', Buffer.alloc(500_000, Buffer.from([0x10, 0])), /not a valid protobuf message/],
    ['a tag of 40 bits', Buffer.from([0x92, 0x80, 0x80, 0x80, 0x10, 0]), /not a valid protobuf message/],
    ['a length beyond the end', Buffer.from([0x12, 0xff, 0xff, 0xff, 0x7f]), /not a valid protobuf message/],
    ['a message that ends in a number', Buffer.from([0x18, 0xff]), /not a valid protobuf message/],
    ['a deep schema', schema(deep(60_000)), /format.schema is nested deeper than 64 levels/],
    ['deep parameters', tools(deep(66)), /parameters is nested deeper than 64 levels/],
    ['many values in a schema', schema(many), /format.schema has more than 100000 values/],
  ];
  for (const [what, message, details] of wrong) {
    const headers = await refusal(message);
    assert.is(headers['grpc-status'], String(status.INVALID_ARGUMENT), what);
    assert.match(decodeURI(String(headers['grpc-message'])), details, what);
  }
  assert.is((await refusal(encode({ ...REQUEST, stop: ['\ud800'] })))['grpc-status'], undefined, 'half a character');
  assert.equal(
    grpc.logged.filter(({ level }) => level === 'error' || level === 'fatal'),
    [],
  );
});

test('requests without a message and with two messages are refused', async () => {
  const grpc = await start();
  const session = await openSession(grpc);
  for (const message of [Buffer.alloc(0), Buffer.concat([framed(encode(REQUEST)), framed(encode(REQUEST))])]) {
    const stream = call(session, GENERATE);
    const response = once(stream.resume(), 'response');
    stream.end(message);
    const [headers] = (await response) as [Record<string, unknown>];
    assert.is(headers['grpc-status'], String(status.INVALID_ARGUMENT));
  }
});

test('an unread answer is dropped after a time: unary, a stream, and the end of a stream', async () => {
  const grpc = await start({
    grpc: { stallMs: 400 },
    script: async function* (_, { signal }) {
      yield START;
      for (let i = 0; i < 200 && !signal.aborted; i += 1) yield text('x'.repeat(16 * 1024));
      throw await aborted(signal);
    },
  });
  grpc.backend.embedScript = async function* () {
    yield START;
    yield { type: 'vectors', vectors: [new Float32Array(500_000)] };
    yield FINISH;
  };
  // The client never extends the flow-control window.
  const session = await openSession(grpc, { initialWindowSize: 1000 });
  const streams = [
    [GENERATE, encode(REQUEST)],
    ['/svc.v1.Inference/Embed', definitions.encode('svc.v1.EmbedRequest', { input: [{ text: 'a' }] })],
  ] as const;
  const closed = streams.map(async ([path, message]) => {
    const stream = call(session, path);
    stream.end(framed(message));
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    assert.is(headers['grpc-status'], undefined, 'it is answered');
    await once(stream, 'close');
    assert.is(stream.rstCode, CANCEL);
  });
  await Promise.all(closed);
  await waitFor('the generation to end', () => grpc.router.active === 0);
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
});

test('answers that one address does not read are bounded', async () => {
  const numbers = 250_000;
  const grpc = await start({ grpc: { answersBytes: 4 * numbers * 4 } });
  grpc.backend.embedScript = async function* () {
    yield START;
    yield { type: 'vectors', vectors: [new Float32Array(numbers)] };
    yield FINISH;
  };
  const session = await openSession(grpc, { initialWindowSize: 1000 });
  const message = definitions.encode('svc.v1.EmbedRequest', { input: [{ text: 'a' }] });
  const closed: (number | undefined)[] = [];
  const streams = Array.from({ length: 6 }, () => {
    const stream = call(session, '/svc.v1.Inference/Embed');
    stream.on('close', () => closed.push(stream.rstCode));
    stream.end(framed(message));
    return stream;
  });
  await waitFor('the refusals', () => closed.length === 3);
  assert.equal(closed, Array(3).fill(ENHANCE_YOUR_CALM));
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
  const client = grpc.connect();
  const embed = async (): Promise<string> =>
    (await failureOf(client.unary('Inference/Embed', { input: [{ text: 'a' }] })).catch(() => null)) === null
      ? 'answered'
      : 'refused';
  assert.is(await embed(), 'refused');
  for (const stream of streams) stream.close();
  await waitFor('them to be given back', async () => (await embed()) === 'answered');
});

test('empty frames do not prolong the timeout', async () => {
  const grpc = await start({ grpc: { stallMs: 300 } });
  grpc.backend.embedScript = async function* () {
    yield START;
    yield { type: 'vectors', vectors: [new Float32Array(100_000)] };
    yield FINISH;
  };
  const socket = connectTcp(grpc.port, '127.0.0.1');
  sessions.push(socket);
  socket.on('error', () => undefined).resume();
  let resets = 0;
  socket.on('data', (chunk: Buffer) => {
    if (chunk.includes(reset(1).subarray(0, 9))) resets += 1;
  });
  const message = definitions.encode('svc.v1.EmbedRequest', { input: [{ text: 'a' }] });
  socket.write(Buffer.concat([opening(), callHeaders(1, '/svc.v1.Inference/Embed'), messageFrames(1, message, true)]));
  const nothing = setInterval(() => {
    if (socket.writable) socket.write(frame(FRAME.priority, 0, 1, Buffer.from([0, 0, 0, 0, 15])));
  }, 50);
  try {
    await waitFor('its reset', () => resets > 0);
  } finally {
    clearInterval(nothing);
  }
});

test('a connection whose client does not answer pings is closed', async () => {
  const grpc = await start({ grpc: { stallMs: 200, pingMs: 200 } });
  const socket = connectTcp(grpc.port, '127.0.0.1');
  sessions.push(socket);
  socket.on('error', () => undefined);
  socket.write(
    Buffer.concat([opening(), callHeaders(1, '/svc.v1.Runtime/WatchHealth'), messageFrames(1, Buffer.alloc(0), true)]),
  );
  await once(socket.resume(), 'close');
  assert.is((await grpc.connect().unary('Runtime/GetHealth')).status, 'ready');
});

test('the slot of a request is freed if its client breaks the protocol and leaves', async () => {
  const grpc = await start({ grpc: { arriving: 1, pingMs: 200 } });
  const socket = connectTcp(grpc.port, '127.0.0.1');
  sessions.push(socket);
  socket.on('error', () => undefined);
  // A call, then an unfinished header block interrupted by another call, after which Node stops reading.
  const unfinished = frame(FRAME.headers, 0, 3, headerBlock(callFields(HEALTH)));
  const answered = once(socket, 'data');
  socket.write(Buffer.concat([opening(), callHeaders(1, GENERATE), unfinished, callHeaders(5, HEALTH)]));
  await answered;
  socket.destroy();
  await waitFor('its place', () => grpc.connect().unary('Runtime/GetHealth'));
});

test.run();
