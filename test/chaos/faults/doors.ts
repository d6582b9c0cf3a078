/** Hostile clients: HTTP/2 frames, and large requests that the client holds open. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { connectTo } from '../../grpc/scripted.ts';
import { dial } from '../../http/ask.ts';
import { must, type Fault } from '../fault.ts';
import { LONG_TOKENS } from '../requests.ts';
import type { Scene } from '../scene.ts';

const MIB = 1024 * 1024;

/** Common to all of these: other clients are not affected. */
const HARMLESS = { mended: 'by itself', withinSeconds: 3, daemon: 'lives', underLoad: true } as const;

const FRAME = { headers: 1, reset: 3, settings: 4, ping: 6 } as const;
const END_HEADERS = 4;
const ACK = 1;

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A literal header field without indexing (RFC 7541, 6.2.2). */
function field(name: string, value: string): Buffer {
  const string = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat([Buffer.from([0]), string(name), string(value)]);
}

const REQUEST = { ':method': 'POST', ':scheme': 'http', ':authority': 'localhost' } as const;
const GENERATE = '/svc.v1.Inference/Generate';

/** HEADERS and RST_STREAM of one request in one packet, after a valid preface. */
function cancelledRequest(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(FRAME.settings, 0, 0),
    frame(FRAME.headers, END_HEADERS, 1, Buffer.concat(fields.map(([name, value]) => field(name, value)))),
    frame(FRAME.reset, 0, 1, Buffer.from([0, 0, 0, 8])),
    frame(FRAME.ping, 0, 0, Buffer.from('chaoschaos'.slice(0, 8))),
  ]);
}

/** Resolves once the daemon has processed everything sent: it answers the PING or closes the connection. */
async function taken(socket: Socket): Promise<void> {
  const pong = frame(FRAME.ping, ACK, 0, Buffer.from('chaoscha'));
  let received = Buffer.alloc(0);
  const ended = once(socket, 'close').catch(() => undefined);
  const answered = new Promise<void>((resolve) => {
    socket.on('data', (piece: Buffer) => {
      received = Buffer.concat([received, piece]);
      if (received.includes(pong)) resolve();
    });
  });
  await Promise.race([ended, answered]);
}

function grpcPort(scene: Scene): number {
  return Number(scene.home.env.SVC_GRPC_ADDR.split(':')[1]);
}

async function answersOverGrpc(scene: Scene): Promise<void> {
  const client = connectTo(scene.home.env.SVC_GRPC_ADDR);
  scene.onClose(() => client.close());
  must((await client.unary('Runtime/GetHealth')).status === 'ready', 'it is not ready');
}

function packetFault(what: string, fields: readonly (readonly [string, string])[]): Fault {
  return {
    name: `gRPC request cancelled in the packet that begins it: ${what}`,
    planted: `a valid preface, HEADERS ${what} and RST_STREAM in one packet, on ten connections under load`,
    ...HARMLESS,
    sees: /^nothing, then an answer over gRPC$/,
    async plant(scene) {
      const packet = cancelledRequest(fields);
      await scene.timed(async () => {
        for (let count = 0; count < 10; count += 1) {
          const socket = await dial(grpcPort(scene));
          socket.on('error', () => undefined).write(packet);
          await taken(socket);
          socket.destroy();
        }
      });
      await answersOverGrpc(scene);
      return 'nothing, then an answer over gRPC';
    },
  };
}

const GRPC = ['content-type', 'application/grpc'] as const;
const pseudo = (path: string): [string, string][] => [...Object.entries(REQUEST), [':path', path]];

function rssBytes(pid: number): number {
  const [, kib = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${String(pid)}/status`, 'utf8')) ?? [];
  return Number(kib) * 1024;
}

/** A gRPC message of empty chat messages, which takes a hundred times its size once decoded. */
function emptyMessages(bytes: number): Buffer {
  const message = Buffer.alloc(bytes, Buffer.from([0x12, 0x00]));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Resolves once the daemon has read everything sent on the session, or has closed it. */
async function read(session: ClientHttp2Session): Promise<void> {
  await new Promise<void>((resolve) => {
    session.once('close', resolve);
    if (session.destroyed || !session.ping(() => resolve())) resolve();
  });
}

async function dialHttp2(scene: Scene): Promise<ClientHttp2Session> {
  const session = connect(`http://localhost:${grpcPort(scene)}`);
  session.on('error', () => undefined);
  scene.onClose(() => session.destroy());
  await once(session, 'connect');
  return session;
}

function padded(bytes: number): Buffer {
  const body = JSON.stringify({
    model: 'tiny',
    messages: [{ role: 'user', content: 'Count' }],
    max_tokens: LONG_TOKENS,
    logit_bias: { '100': 100 },
  });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head + body), Buffer.alloc(bytes - body.length, ' ')]);
}

const noProc = (): string | undefined => (process.platform === 'linux' ? undefined : 'needs /proc');

export const DOORS: readonly Fault[] = [
  packetFault('without a content type', pseudo('/')),
  packetFault('of an unknown method', [...pseudo('/svc.v1.Nothing/Nowhere'), GRPC]),
  packetFault('of a good request', [...pseudo(GENERATE), GRPC]),
  packetFault('with two content types', [...pseudo(GENERATE), GRPC, ['content-type', 'text/plain']]),
  packetFault('of a CONNECT', [
    [':method', 'CONNECT'],
    [':authority', 'localhost'],
  ]),
  {
    name: 'gRPC requests that never end',
    planted: 'eight requests of 3.9 MiB of empty messages on one connection, none of which is ended, under load',
    ...HARMLESS,
    withinSeconds: 5,
    impossible: noProc,
    sees: /^others are answered, and less than 400 MiB are held$/,
    async plant(scene) {
      const pid = await scene.pid();
      const before = rssBytes(pid);
      const session = await dialHttp2(scene);
      await scene.timed(async () => {
        const message = emptyMessages(Math.round(3.9 * MIB));
        for (let count = 0; count < 8 && !session.destroyed; count += 1) {
          const stream = session.request({ ':method': 'POST', ':path': GENERATE, [GRPC[0]]: GRPC[1] });
          stream.on('error', () => undefined).resume();
          const refused = once(stream, 'close').catch(() => undefined);
          await Promise.race([refused, new Promise((resolve) => stream.write(message, resolve))]);
        }
        await read(session);
      });
      await answersOverGrpc(scene);
      const held = rssBytes(pid) - before;
      session.destroy();
      const isLittle = held < 400 * MIB;
      return `others are answered, and ${isLittle ? 'less than 400' : String(Math.round(held / MIB))} MiB are held`;
    },
  },
  {
    name: 'large requests whose answers are not read',
    planted: 'ten requests of 31 MiB to an engine that is stopped; their answers are not read',
    mended: 'by itself',
    withinSeconds: 10,
    daemon: 'lives',
    config: { engine: { stall_timeout_seconds: 600 } },
    sees: /^ten requests are accepted, others are answered$/,
    async plant(scene) {
      await scene.requests.ask({ model: 'tiny' });
      const { pid } = await scene.engine('tiny');
      process.kill(pid, 'SIGSTOP');
      scene.onClose(() => continueQuietly(pid));
      const request = padded(31 * MIB);
      const sockets: Socket[] = [];
      scene.onClose(() => sockets.forEach((socket) => socket.destroy()));
      await scene.timed(async () => {
        for (let count = 1; count <= 10; count += 1) {
          const socket = await dial(scene.port);
          socket.on('error', () => undefined).pause();
          socket.write(request);
          sockets.push(socket);
          await scene.underWay(count);
        }
      });
      must((await scene.requests.ask()).kind === 'answered', 'another request is not answered');
      for (const socket of sockets) socket.destroy();
      process.kill(pid, 'SIGCONT');
      await scene.idle();
      return 'ten requests are accepted, others are answered';
    },
  },
];

function continueQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch {
    // The process has already ended.
  }
}
