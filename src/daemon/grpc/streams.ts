/**
 * The HTTP/2 streams below the calls: the library sees only those that are still there, and none is
 * held for longer than its client reads.
 *
 * - A stream that the client has reset before its headers were looked at is not handed on: the library
 *   would answer it, and throw.
 * - Once the answer is sent the stream is closed, whether or not the client has ended its side.
 * - A connection is pinged, when it is new and while a request takes long to arrive. A client that breaks the protocol in some
 *   ways (another frame where a CONTINUATION is due) makes Node stop reading without a word: nothing tells of
 *   the end of that connection, and its requests would keep their places.
 * - A stream whose client does not read what is ready is reset. Node's timer of a stream knows of progress
 *   inside a large message, but a client can renew it with frames that are nothing; the second bound, by
 *   messages that were sent whole, it cannot.
 */
import { constants, type Http2Server, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import type { Containment } from '../contain.ts';

const MIB = 1024 * 1024;
/** How often the second bound is looked at, as a part of the first. */
const CHECKS_PER_STALL = 4;
/** Nearly all requests have arrived by then, and nearly all clients have spoken. */
const ARRIVING_MS = 1000;

export interface StreamLimits {
  readonly stallMs: number;
  /** Until a ping is answered. */
  readonly pingMs: number;
}

interface Held {
  /** Bytes that the library has written. */
  written: number;
  /** Of them, those that had left when a whole message last did. */
  sent: number;
  sentAt: number;
}

export class Streams {
  readonly #containment: Containment;
  readonly #stallMs: number;
  readonly #pingMs: number;
  readonly #pinged = new WeakSet<Http2Session>();
  readonly #held = new Map<ServerHttp2Stream, Held>();
  readonly #timer: NodeJS.Timeout;
  #current: ServerHttp2Stream | null = null;

  constructor(containment: Containment, { stallMs, pingMs }: StreamLimits) {
    this.#containment = containment;
    this.#stallMs = stallMs;
    this.#pingMs = pingMs;
    this.#timer = setInterval(() => this.#check(), stallMs / CHECKS_PER_STALL).unref();
  }

  /** Those that are open. */
  get size(): number {
    return this.#held.size;
  }

  /** The stream whose call is being made. */
  get current(): ServerHttp2Stream {
    if (this.#current === null) throw new Error('no call is being made');
    return this.#current;
  }

  /** REQUIRES: the library listens to `server` already. */
  watch(server: Http2Server): void {
    const emit = server.emit.bind(server) as (event: string | symbol, ...args: unknown[]) => boolean;
    server.emit = (event: string | symbol, ...args: unknown[]): boolean => {
      if (event === 'session') this.#probeOnce(args[0] as Http2Session);
      if (event !== 'stream') return emit(event, ...args);
      const stream = args[0] as ServerHttp2Stream;
      // What goes wrong with a stream is told by its end.
      stream.on('error', () => undefined);
      if (stream.destroyed || stream.closed) return true;
      this.#hold(stream);
      this.#current = stream;
      try {
        return emit(event, ...args);
      } finally {
        this.#current = null;
      }
    };
    this.#containment.serve(server);
  }

  /** Runs `work` for the call on `stream`; what it throws ends the connection. */
  contain(stream: ServerHttp2Stream, work: () => void): void {
    this.#containment.run(stream.session ?? stream, () => {
      work();
      return true;
    });
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #hold(stream: ServerHttp2Stream): void {
    const held = { written: 0, sent: 0, sentAt: performance.now() };
    this.#held.set(stream, held);
    const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
    stream.write = (...args: unknown[]): boolean => {
      if (stream.bufferSize === 0) held.sentAt = performance.now();
      held.written += (args[0] as Buffer).length;
      return write(...args);
    };
    stream.once('close', () => this.#held.delete(stream));
    closeOnceAnswered(stream);
    if (!stream.endAfterHeaders) this.#probeWhileArriving(stream);
    const onTimeout = (): void => {
      if (stream.bufferSize > 0) stream.close(constants.NGHTTP2_CANCEL);
      else stream.setTimeout(this.#stallMs, onTimeout);
    };
    stream.setTimeout(this.#stallMs, onTimeout);
  }

  /** Pings the connection of `stream` until its request has arrived; destroys it when there is no answer. */
  #probeWhileArriving(stream: ServerHttp2Stream): void {
    const timer = setTimeout(() => {
      const { session } = stream;
      if (session === undefined || stream.state.remoteClose === 1) return;
      timer.refresh();
      if (!this.#pinged.has(session)) this.#ping(session);
    }, ARRIVING_MS).unref();
    stream.once('close', () => clearTimeout(timer));
  }

  /** The rest of its life the library pings it. */
  #probeOnce(session: Http2Session): void {
    const timer = setTimeout(() => this.#ping(session), ARRIVING_MS).unref();
    session.once('close', () => clearTimeout(timer));
  }

  #ping(session: Http2Session): void {
    if (session.destroyed) return;
    this.#pinged.add(session);
    const timer = setTimeout(() => session.destroy(), this.#pingMs).unref();
    const isSent = session.ping(() => {
      clearTimeout(timer);
      this.#pinged.delete(session);
    });
    if (!isSent) session.destroy();
  }

  /** The second bound: one stall for each MiB that waits, and one. */
  #check(): void {
    const now = performance.now();
    for (const [stream, held] of this.#held) {
      const waiting = stream.bufferSize;
      const sent = held.written - waiting;
      if (waiting === 0 || sent > held.sent) {
        held.sent = sent;
        held.sentAt = now;
      } else if (now - held.sentAt > this.#stallMs * (2 + waiting / MIB)) {
        stream.close(constants.NGHTTP2_CANCEL);
      }
    }
  }
}

/** A client that has not ended its side by then has nothing more to say. */
function closeOnceAnswered(stream: ServerHttp2Stream): void {
  const close = (): void => {
    if (!stream.closed && stream.state.remoteClose === 0) stream.close(constants.NGHTTP2_NO_ERROR);
  };
  const respond = stream.respond.bind(stream);
  stream.respond = (headers, options): void => {
    if (options?.waitForTrailers !== true) stream.once('finish', close);
    respond(headers, options);
  };
  const sendTrailers = stream.sendTrailers.bind(stream);
  stream.sendTrailers = (headers): void => {
    sendTrailers(headers);
    setImmediate(close);
  };
}
