/**
 * Protects the gRPC library from misbehaving HTTP/2 streams, and ends streams whose clients do not read.
 *
 * - A stream that the client has reset before its headers were processed is not passed to the library, which would
 *   answer it and throw.
 * - A deadline longer than the library's timer can hold is dropped; the library would end the call at once.
 * - Once the answer is sent the stream is closed, even if the client has not ended its side.
 * - A connection is pinged when it is new and while a request takes long to arrive. Some protocol violations (another
 *   frame where a CONTINUATION is due) make Node stop reading silently: it never reports the end of such a connection,
 *   whose requests would count as arriving forever.
 * - A stream is reset if its client does not read. The first timeout is Node's stream timeout: it notices progress
 *   within a large message, but a client can renew it with empty frames. The second timeout counts only messages that
 *   were sent completely, which a client cannot fake.
 * - The bytes that wait for clients are counted. The stream that would send too many of them to one address, or to all
 *   together, is reset as RESOURCE_EXHAUSTED.
 */
import {
  constants,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { LONGEST_TIMER_MS } from '../../protocol/limits.ts';
import { networkOf } from '../../net/ip-address.ts';
import { Shares } from '../../net/shares.ts';
import type { Containment } from '../contain.ts';

const MIB = 1024 * 1024;
/** Fewer are not counted: a stream takes as much memory. */
const SMALL_BYTES = 4 * 1024;
/** Number of checks of the second timeout per `stallMs`. */
const CHECKS_PER_STALL = 4;
/** By then nearly all requests have arrived, and nearly all clients have sent something. */
const ARRIVING_MS = 1000;
/** The units of grpc-timeout that can exceed a timer: gRPC allows eight digits. */
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000 };

export interface StreamLimits {
  readonly stallMs: number;
  /** Bytes that may wait for clients on all streams. */
  readonly answersBytes: number;
  /** Time until a ping must be answered. */
  readonly pingMs: number;
}

interface Held {
  /** Bytes that the library has written. */
  written: number;
  /** Bytes that had been sent when the last whole message was. */
  sent: number;
  sentAt: number;
  /** Bytes that are counted as waiting. */
  counted: number;
}

export class Streams {
  readonly #containment: Containment;
  readonly #stallMs: number;
  readonly #pingMs: number;
  readonly #pinged = new WeakSet<Http2Session>();
  readonly #held = new Map<ServerHttp2Stream, Held>();
  readonly #timer: NodeJS.Timeout;
  readonly #unread: Shares;
  #current: ServerHttp2Stream | null = null;

  constructor(containment: Containment, { stallMs, pingMs, answersBytes }: StreamLimits) {
    this.#containment = containment;
    this.#unread = new Shares(answersBytes);
    this.#stallMs = stallMs;
    this.#pingMs = pingMs;
    this.#timer = setInterval(() => this.#check(), stallMs / CHECKS_PER_STALL).unref();
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
      // Stream errors are reported by the end of the stream.
      stream.on('error', () => undefined);
      if (stream.destroyed || stream.closed) return true;
      dropLongDeadline(args[1] as IncomingHttpHeaders);
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

  /** Runs `work` for the call on `stream`; an error that it throws ends the connection. */
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
    const held = { written: 0, sent: 0, sentAt: performance.now(), counted: 0 };
    const network = networkOf(stream.session?.socket.remoteAddress ?? '');
    this.#held.set(stream, held);
    const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
    stream.write = (...args: unknown[]): boolean => {
      if (stream.bufferSize === 0) held.sentAt = performance.now();
      const { length } = args[0] as Buffer;
      if (!this.#mayWait(network, held, stream.bufferSize + length)) {
        stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        return false;
      }
      held.written += length;
      return write(...args);
    };
    stream.once('close', () => {
      this.#held.delete(stream);
      this.#unread.giveBack(network, held.counted);
    });
    closeOnceAnswered(stream);
    if (!stream.endAfterHeaders) this.#probeWhileArriving(stream);
    const onTimeout = (): void => {
      if (stream.bufferSize > 0) stream.close(constants.NGHTTP2_CANCEL);
      else stream.setTimeout(this.#stallMs, onTimeout);
    };
    stream.setTimeout(this.#stallMs, onTimeout);
  }

  /** Counts `waiting` bytes of a stream in place of those before. Returns false if the client holds too many already. */
  #mayWait(network: string, held: Held, waiting: number): boolean {
    this.#unread.giveBack(network, held.counted);
    held.counted = 0;
    if (waiting <= SMALL_BYTES) return true;
    if (!this.#unread.take(network, waiting)) return false;
    held.counted = waiting;
    return true;
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

  /** Pings a new connection once; afterwards the library pings it. */
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

  /** The second timeout: two stall times, and one more for each MiB that waits. */
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

function dropLongDeadline(headers: IncomingHttpHeaders): void {
  const [, digits, unit = ''] = /(\d{1,8})\s*([HMSmun])/.exec(String(headers['grpc-timeout'])) ?? [];
  if (Number(digits) * (UNIT_MS[unit] ?? 0) > LONGEST_TIMER_MS) delete headers['grpc-timeout'];
}

/** Closes a stream after its answer, even if the client has not ended its side. */
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
