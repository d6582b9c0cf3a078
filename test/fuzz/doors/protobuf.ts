/** Target `protobuf`: requests to each gRPC method in turn, with valid framing and invalid contents. */
import { connect, constants, type ClientHttp2Session } from 'node:http2';
import type { Random } from '../random.ts';
import type { Door, Player } from './doors.ts';
import type { FuzzedDaemon } from './fuzzed-daemon.ts';
import { METHODS, requestBytes } from './protobuf-messages.ts';

const CASES = 200_000;
const PATIENCE_MS = 150;
/** gRPC statuses that mean a fault of the daemon, not of the client (UNKNOWN, INTERNAL, DATA_LOSS). */
const BUGS = ['2', '13', '15'];

export const protobuf: Door = {
  name: 'protobuf',
  cases: CASES,
  isShipped: false,
  open: (daemon) => Promise.resolve(new ProtobufPlayer(daemon)),
};

class ProtobufPlayer implements Player {
  readonly #daemon: FuzzedDaemon;
  #session: ClientHttp2Session | null = null;

  constructor(daemon: FuzzedDaemon) {
    this.#daemon = daemon;
  }

  play(random: Random): Promise<string | null> {
    const { path, type } = random.of(METHODS);
    const message = requestBytes(random, type);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    const session = this.#connected();
    return new Promise((resolve) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      let found: string | null = null;
      const judge = (headers: Record<string, unknown>): void => {
        const status = headers['grpc-status'];
        if (typeof status !== 'string' || !BUGS.includes(status)) return;
        found = `${path} answers ${status} ${String(headers['grpc-message'])} to ${message.toString('hex')}`;
      };
      // Cancels long calls, and watches, which never end.
      const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), PATIENCE_MS);
      const isWatch = path.endsWith('Watch') || path.endsWith('WatchHealth');
      stream.on('data', () => {
        if (isWatch) stream.close(constants.NGHTTP2_CANCEL);
      });
      stream.on('response', judge).on('trailers', judge);
      stream.on('error', () => undefined);
      stream.once('close', () => {
        clearTimeout(timer);
        resolve(found);
      });
      stream.end(Buffer.concat([head, message]));
    });
  }

  close(): void {
    this.#session?.destroy();
  }

  #connected(): ClientHttp2Session {
    if (this.#session === null || this.#session.closed || this.#session.destroyed) {
      this.#session = connect(`http://127.0.0.1:${String(this.#daemon.grpcPort)}`);
      this.#session.on('error', () => undefined);
      this.#session.setMaxListeners(0);
    }
    return this.#session;
  }
}
