/** Faulty and hostile clients of the listeners, while other clients are served. */
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { status, type ClientReadableStream } from '@grpc/grpc-js';
import { given } from '../../../src/protocol/given.ts';
import { connectTo, failureOf, type Failure } from '../../grpc/scripted.ts';
import { ask, dial, readAll } from '../../http/ask.ts';
import { must, type Fault } from '../fault.ts';
import { LONG_TOKENS } from '../requests.ts';
import { LONG, type Scene } from '../scene.ts';
import { answer } from '../see.ts';

const CHAT = '/v1/chat/completions';
const MIB = 1024 * 1024;
const HELLO = JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 });

/** A streamed request whose answer takes seconds. */
const LONG_BODY = JSON.stringify({
  ...(JSON.parse(HELLO) as object),
  model: 'tiny',
  stream: true,
  max_tokens: LONG_TOKENS,
  logit_bias: { '100': 100 },
});

/** Common to all of these: other clients are not affected. */
const HARMLESS = { mended: 'by itself', withinSeconds: 3, daemon: 'lives', underLoad: true } as const;

function head(length: number | 'chunked'): string {
  const how = length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`;
  return `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${how}\r\n\r\n`;
}

/** Opens connections that ignore errors and are closed with the scene. */
async function dialMany(scene: Scene, count: number): Promise<Socket[]> {
  const sockets = await Promise.all(Array.from({ length: count }, () => dial(scene.port)));
  for (const socket of sockets) socket.on('error', () => undefined);
  scene.onClose(() => sockets.forEach((socket) => socket.destroy()));
  return sockets;
}

/** Sends `bytes` on a new connection and returns the answer. */
async function exchange(scene: Scene, bytes: string | Buffer): Promise<string> {
  const [socket] = (await dialMany(scene, 1)) as [Socket];
  const answered = readAll(socket);
  socket.write(bytes);
  const text = await answered;
  return text === '' ? 'a closed connection' : answer({ status: Number(text.slice(9, 12)), text });
}

/** A fault: a request that is always answered with the same error, sent ten times. */
function refused(name: string, planted: string, sees: RegExp, bytes: () => string | Buffer): Fault {
  return {
    name,
    planted: `${planted}, ten times under load`,
    ...HARMLESS,
    sees,
    async plant(scene) {
      const body = bytes();
      let saw: string[] = [];
      await scene.timed(async () => {
        saw = await Promise.all(Array.from({ length: 10 }, () => exchange(scene, body)));
      });
      return [...new Set(saw)].join(', ');
    },
  };
}

function filled(before: string, piece: string, length: number): Buffer {
  return Buffer.concat([Buffer.from(before), Buffer.alloc(length, piece)]);
}

function whole(body: string | Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(head(Buffer.byteLength(body)).replace('\r\n', '\r\nconnection: close\r\n')),
    Buffer.from(body),
  ]);
}

const GRPC_LONG = {
  model: 'tiny',
  messages: [{ role: 'user', content: 'Count' }],
  sampling: { logit_bias: [{ token: 100, bias: 100 }] },
};

interface Call {
  readonly call: ClientReadableStream<unknown>;
  /** How the call fails. */
  readonly failure: Promise<Failure>;
  /** Closes the connection. */
  close(): void;
}

/** Starts a call; resolves when its answer has begun. */
async function grpcCall(scene: Scene, deadline?: number): Promise<Call> {
  const client = connectTo(scene.home.env.SVC_GRPC_ADDR);
  scene.onClose(() => client.close());
  const call = client.stream('Inference/Generate', GRPC_LONG, given({ deadline }));
  const failure = failureOf(call);
  failure.catch(() => undefined);
  await once(call, 'readable');
  return { call, failure, close: () => client.close() };
}

export const NETWORK: readonly Fault[] = [
  {
    name: 'client gone in the middle of a stream',
    planted: 'twenty clients close their connections after the first words',
    ...HARMLESS,
    sees: /^nothing: the client went away, and the engines are idle$/,
    async plant(scene) {
      const streams = await Promise.all(Array.from({ length: 20 }, () => scene.requests.stream(LONG)));
      await scene.timed(() => streams.forEach((stream) => stream.leave()), 'tiny');
      const ends = await Promise.all(streams.map(({ end }) => end));
      await scene.calm();
      await scene.idle();
      return `${[...new Set(ends.map(({ saw }) => saw))].join(', ')}, and the engines are idle`;
    },
  },
  {
    name: 'client gone before the first words',
    planted: 'twenty clients send their requests and reset their connections at once',
    ...HARMLESS,
    sees: /^nothing: the client went away, and the engines are idle$/,
    async plant(scene) {
      const sockets = await dialMany(scene, 20);
      await scene.timed(() => {
        for (const socket of sockets) socket.write(whole(LONG_BODY), () => socket.resetAndDestroy());
      }, 'tiny');
      await scene.calm();
      await scene.idle();
      return 'nothing: the client went away, and the engines are idle';
    },
  },
  {
    name: 'clients that do not read',
    planted: 'thirty clients ask for streams and read nothing of them, then go away',
    ...HARMLESS,
    sees: /^nothing, and the engines are idle$/,
    async plant(scene) {
      const sockets = await dialMany(scene, 30);
      await scene.timed(() => sockets.forEach((socket) => socket.pause().write(whole(LONG_BODY))));
      await scene.underWay(30);
      await scene.calm();
      for (const socket of sockets) socket.destroy();
      await scene.idle();
      return 'nothing, and the engines are idle';
    },
  },
  {
    name: 'slowloris',
    planted: 'a hundred requests whose headers never end, a hundred whose bodies do not, under load',
    ...HARMLESS,
    sees: /^HTTP 408: the request took too long to arrive$/,
    async plant(scene) {
      const headers = await dialMany(scene, 100);
      const bodies = await dialMany(scene, 100);
      const answers = headers.map((socket) => readAll(socket));
      let texts: string[] = [];
      await scene.timed(() => {
        for (const socket of headers) socket.write('GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ');
        for (const socket of bodies) socket.write(head(1_000_000));
      });
      texts = await Promise.all(answers);
      for (const socket of bodies) socket.destroy();
      return [...new Set(texts.map((text) => answer({ status: Number(text.slice(9, 12)), text })))].join(', ');
    },
  },
  {
    name: 'silent connections',
    planted: 'a thousand connections without a byte, under load',
    ...HARMLESS,
    sees: /^HTTP 408: the request took too long to arrive$/,
    async plant(scene) {
      const sockets = (await Promise.all(Array.from({ length: 10 }, () => dialMany(scene, 100)))).flat();
      let texts: string[] = [];
      const answers = Promise.all(sockets.map((socket) => readAll(socket)));
      await scene.timed(() => undefined);
      texts = await answers;
      return [...new Set(texts.map((text) => answer({ status: Number(text.slice(9, 12)), text })))].join(', ');
    },
  },
  refused(
    'endless headers',
    'a header of 64 KiB',
    /^HTTP 431: the headers are too large$/,
    () => `GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(64 * 1024)}\r\n\r\n`,
  ),
  refused(
    'body declared too large',
    '`content-length: 1000000000000`',
    /^HTTP 413: the body is larger than \d+ bytes$/,
    () => head(1e12),
  ),
  {
    name: 'chunked body that becomes too large',
    planted: 'a chunked body of 40 MiB of blanks, under load',
    ...HARMLESS,
    sees: /^(HTTP 413: the body is larger than \d+ bytes|a closed connection)$/,
    async plant(scene) {
      const piece = `100000\r\n${' '.repeat(MIB)}\r\n`;
      let saw = '';
      await scene.timed(async () => (saw = await exchange(scene, head('chunked') + piece.repeat(40))));
      return saw;
    },
  },
  refused(
    'JSON nested too deep',
    'a body of 100,000 opening brackets',
    /^HTTP 400: the body is nested deeper than \d+ levels$/,
    () => whole(filled('', '[', 100_000)),
  ),
  refused(
    'JSON with too many values',
    'a body of 400,000 empty objects',
    /^HTTP 400: the body has more than \d+ values$/,
    () => whole(filled('{"messages":[', '{},', 1_200_000)),
  ),
  refused('body that is not JSON', 'a body that ends in the middle', /^HTTP 400: the body is not valid JSON$/, () =>
    whole('{"messages":[{"role":"user","content":"He'),
  ),
  refused('body that is not UTF-8', 'a body of random bytes', /^HTTP 400: the body is not valid UTF-8$/, () =>
    whole(Buffer.from([0x22, 0xff, 0xfe, 0x80, 0x22])),
  ),
  refused('bytes that are not HTTP', '4 KiB of garbage', /^HTTP 400: this is not an HTTP request$/, () =>
    Buffer.alloc(4096, Buffer.from([0, 1, 2, 254, 255])),
  ),
  refused('page of another origin', 'a request of `Origin: https://evil.example`', /^HTTP 403: /, () =>
    whole(HELLO).toString().replace('host: localhost', 'host: localhost\r\norigin: https://evil.example'),
  ),
  refused('DNS rebinding', 'a request for `Host: evil.example`', /^HTTP 403: /, () =>
    whole(HELLO).toString().replace('host: localhost', 'host: evil.example'),
  ),
  {
    name: 'good request behind a bad one',
    planted: 'a request that is refused and a good one behind it, on one connection at once',
    ...HARMLESS,
    sees: /^HTTP 400, then HTTP 200$/,
    async plant(scene) {
      const [socket] = (await dialMany(scene, 1)) as [Socket];
      const answered = readAll(socket);
      await scene.timed(() => socket.write(Buffer.concat([Buffer.from(head(2) + '[]'), whole(HELLO)])));
      const statuses = [...(await answered).matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, code]) => `HTTP ${String(code)}`);
      return statuses.join(', then ');
    },
  },
  {
    name: 'a thousand requests on one connection at once',
    planted: 'a thousand pipelined requests whose answers are not read',
    ...HARMLESS,
    sees: /^a closed connection$/,
    async plant(scene) {
      const [socket] = (await dialMany(scene, 1)) as [Socket];
      const closed = once(socket, 'close');
      await scene.timed(() =>
        socket.pause().write('GET /v1/runtime/health HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(1000)),
      );
      socket.resume();
      await closed;
      return 'a closed connection';
    },
  },
  {
    name: 'keep-alive connection reset',
    planted: 'a keep-alive connection reset after its answer, a hundred times under load',
    ...HARMLESS,
    sees: /^HTTP 200$/,
    async plant(scene) {
      const saw = new Set<string>();
      const agent = new Agent({ keepAlive: true });
      await scene.timed(async () => {
        for (let count = 0; count < 100; count += 1) {
          const req = request({ host: '127.0.0.1', port: scene.port, path: '/livez', agent });
          req.on('error', () => undefined).end();
          const [res] = (await once(req, 'response')) as [IncomingMessage];
          const { socket } = res;
          saw.add(`HTTP ${String(res.statusCode)}`);
          await once(res.resume(), 'end');
          socket.resetAndDestroy();
        }
      });
      return [...saw].join(', ');
    },
  },
  {
    name: 'gRPC call cancelled',
    planted: 'a call of `Inference.Generate` cancelled after the first words',
    ...HARMLESS,
    sees: /^CANCELLED, and the engines are idle$/,
    async plant(scene) {
      const { call, failure } = await grpcCall(scene);
      await scene.timed(() => call.cancel(), 'tiny');
      const { status: code } = await failure;
      await scene.calm();
      await scene.idle();
      return `${status[code] ?? String(code)}, and the engines are idle`;
    },
  },
  {
    name: 'gRPC deadline passes',
    planted: 'a call of `Inference.Generate` with a deadline of half a second',
    ...HARMLESS,
    sees: /^DEADLINE_EXCEEDED, and the engines are idle$/,
    async plant(scene) {
      let code = 0;
      await scene.timed(async () => {
        const { failure } = await grpcCall(scene, Date.now() + 500);
        ({ status: code } = await failure);
      }, 'tiny');
      await scene.calm();
      await scene.idle();
      return `${status[code] ?? String(code)}, and the engines are idle`;
    },
  },
  {
    name: 'gRPC connection lost',
    planted: 'the connection of a call closed after the first words',
    ...HARMLESS,
    sees: /^nothing, and the engines are idle$/,
    async plant(scene) {
      const { close } = await grpcCall(scene);
      await scene.timed(close, 'tiny');
      await scene.calm();
      await scene.idle();
      return 'nothing, and the engines are idle';
    },
  },
  {
    name: 'engine killed under a gRPC call',
    planted: '`kill -9` of the engine in the middle of a call of `Inference.Generate`',
    ...HARMLESS,
    withinSeconds: 5,
    mayFail: ['engine_crashed'],
    sees: /^UNAVAILABLE ENGINE_CRASHED: the engine of tiny was ended by SIGKILL$/,
    async plant(scene) {
      const { failure } = await grpcCall(scene);
      const { pid } = await scene.engine('tiny');
      await scene.timed(() => process.kill(pid, 'SIGKILL'), 'tiny');
      const { status: code, reason, message } = await failure;
      return `${status[code] ?? String(code)} ${reason ?? ''}: ${message}`;
    },
  },
  {
    name: 'garbage on the gRPC port',
    planted: '4 KiB of garbage and a request of HTTP/1.1, ten times each, under load',
    ...HARMLESS,
    sees: /^closed connections, then an answer over gRPC$/,
    async plant(scene) {
      const port = Number(scene.home.env.SVC_GRPC_ADDR.split(':')[1]);
      await scene.timed(async () => {
        for (const bytes of [Buffer.alloc(4096, 0xfe), 'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n']) {
          const ends = Array.from({ length: 10 }, async () => {
            const socket = await dial(port);
            socket.on('error', () => undefined).write(bytes);
            await readAll(socket);
          });
          await Promise.all(ends);
        }
      });
      const client = connectTo(scene.home.env.SVC_GRPC_ADDR);
      scene.onClose(() => client.close());
      must((await client.unary('Runtime/GetHealth')).status === 'ready', 'it is not ready');
      return 'closed connections, then an answer over gRPC';
    },
  },
  {
    name: 'many requests for metrics',
    planted: 'two hundred requests for `/metrics` and `/v1/runtime/health` at once, under load',
    ...HARMLESS,
    sees: /^HTTP 200$/,
    async plant(scene) {
      let saw: string[] = [];
      await scene.timed(async () => {
        const paths = Array.from({ length: 200 }, (_, n) => (n % 2 === 0 ? '/metrics' : '/v1/runtime/health'));
        saw = await Promise.all(paths.map(async (path) => `HTTP ${(await ask({ port: scene.port }, path)).status}`));
      });
      return [...new Set(saw)].join(', ');
    },
  },
];
