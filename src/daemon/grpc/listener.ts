/**
 * The gRPC listener. It owns the sockets: it accepts, counts and closes them, and passes HTTP/2 connections to the gRPC
 * server.
 *
 * The gRPC server and its library are loaded at the first HTTP/2 connection. So without gRPC clients the daemon starts
 * faster and is smaller, and a silent connection costs only a socket.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { within } from '../../files/within.ts';
import { shareConnections } from '../../net/connection-shares.ts';
import { Containment } from '../contain.ts';
import type { Services } from '../services.ts';
import { LIMITS, type GrpcLimits } from './limits.ts';
import type { GrpcServer } from './server.ts';

/** The first bytes from every HTTP/2 client. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Time for the last status of each stream to be sent. */
const LAST_WORDS_MS = 2000;

export class GrpcListener {
  /** The caller starts listening on it. */
  readonly server: Server;
  readonly #services: Services;
  readonly #limits: GrpcLimits;
  readonly #sockets = new Set<Socket>();
  #grpc: Promise<GrpcServer> | null = null;
  #closing = false;

  constructor(services: Services, limits: Partial<GrpcLimits> = {}) {
    this.#services = services;
    this.#limits = { ...LIMITS, ...limits };
    this.server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    new Containment(services.log).serve(this.server);
    shareConnections(this.server, this.#limits.connections);
    this.server.once('listening', () => {
      this.server.on('error', (err) => services.log.error({ err }, 'a gRPC connection could not be accepted'));
    });
  }

  /** Ends every stream with NOT_READY, then destroys the remaining connections. Idempotent. */
  async close(): Promise<void> {
    this.#closing = true;
    if (!this.server.listening) return;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    const grpc = await this.#grpc?.catch(() => null);
    grpc?.close(LAST_WORDS_MS);
    if (grpc !== null && grpc !== undefined) await within(LAST_WORDS_MS, closed);
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // A connection reset is not an error here.
    socket.on('error', () => undefined);
    socket.setTimeout(this.#limits.prefaceMs, () => socket.destroy());
    socket.once('readable', () => {
      const head = socket.read() as Buffer | null;
      if (head === null || !isPreface(head)) return void socket.destroy();
      socket.unshift(head);
      socket.setTimeout(0);
      void this.#hand(socket);
    });
  }

  async #hand(socket: Socket): Promise<void> {
    try {
      this.#grpc ??= import('./server.ts').then(({ GrpcServer }) => new GrpcServer(this.#services, this.#limits));
      const grpc = await this.#grpc;
      if (this.#closing || socket.destroyed) socket.destroy();
      else grpc.inject(socket);
    } catch (err) {
      this.#services.log.error({ err }, 'cannot load the gRPC server');
      socket.destroy();
    }
  }
}

/** True if `head` is the beginning of the preface; the HTTP/2 parser checks the rest. */
function isPreface(head: Buffer): boolean {
  const length = Math.min(head.length, PREFACE.length);
  return head.subarray(0, length).equals(PREFACE.subarray(0, length));
}
