/**
 * The gRPC port. This file owns the sockets: it binds, counts and closes them, and hands those that
 * speak HTTP/2 to the gRPC server.
 *
 * That server, with its library, is loaded when the first of them comes: a daemon that nobody asks
 * over gRPC starts no slower and is no larger for it, and a connection that says nothing costs no
 * more than a socket.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Containment } from '../contain.ts';
import type { Services } from '../services.ts';
import type { GrpcServer } from './server.ts';

export interface GrpcLimits {
  readonly connections: number;
  /** From the connection until its first bytes. */
  readonly prefaceMs: number;
  /** A connection without a call is closed after so long; clients open another when they need one. */
  readonly idleMs: number;
  /** Calls that one connection may have at once. */
  readonly streams: number;
  /** Of one request. */
  readonly messageBytes: number;
  /** Requests that may be arriving at once, on all connections. */
  readonly arriving: number;
  /** Until a request is complete. */
  readonly requestMs: number;
  /** How long a call waits for a client that does not read. */
  readonly stallMs: number;
  readonly pingEveryMs: number;
  /** Until a ping is answered. */
  readonly pingMs: number;
  /** Memory of all requests, from their arrival until they are answered. */
  readonly requestsBytes: number;
}

export const LIMITS: GrpcLimits = {
  connections: 1024,
  prefaceMs: 10_000,
  idleMs: 300_000,
  streams: 64,
  messageBytes: 4 * 1024 * 1024,
  arriving: 64,
  requestMs: 120_000,
  stallMs: 120_000,
  pingEveryMs: 30_000,
  pingMs: 10_000,
  requestsBytes: 256 * 1024 * 1024,
};

/** What every HTTP/2 client says first. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** For the last status of each stream to be sent. */
const LAST_WORDS_MS = 2000;

export class GrpcListener {
  /** The caller makes it listen. */
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
    this.server.maxConnections = this.#limits.connections;
    this.server.once('listening', () => {
      this.server.on('error', (err) => services.log.error({ err }, 'a gRPC connection could not be accepted'));
    });
  }

  /** Ends every stream with NOT_READY, and what is left after that. Idempotent. */
  async close(): Promise<void> {
    this.#closing = true;
    if (!this.server.listening) return;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    const grpc = await this.#grpc?.catch(() => null);
    grpc?.close(LAST_WORDS_MS);
    if (grpc !== null && grpc !== undefined) {
      const given = new AbortController();
      await Promise.race([closed, sleep(LAST_WORDS_MS, undefined, { signal: given.signal }).catch(() => undefined)]);
      given.abort();
    }
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // A reset is an end like any other.
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
      this.#services.log.error({ err }, 'gRPC cannot be served');
      socket.destroy();
    }
  }
}

/** Its beginning is enough: the rest is the HTTP/2 parser's to judge. */
function isPreface(head: Buffer): boolean {
  const length = Math.min(head.length, PREFACE.length);
  return head.subarray(0, length).equals(PREFACE.subarray(0, length));
}
