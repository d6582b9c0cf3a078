/**
 * An error that a connection causes ends that connection, not the daemon.
 *
 * All client input reaches event listeners: of the server, the connection, its requests and streams. An error that
 * such a listener throws would be an uncaught exception of the process. Here the `emit` of each emitter catches such
 * errors and destroys the connection. The log gets at most one line per connection, and few lines for many
 * connections.
 *
 * Errors of timers and promises are not contained. AsyncLocalStorage would name the request that began them, but what
 * serves all (engines, queues, caches, the ledger) is begun by one request, too: its errors would end a connection that
 * is not at fault, and leave a broken part to all others. They are bugs that end the daemon (lifecycle.ts).
 */
import type { EventEmitter } from 'node:events';
import type { Logger } from '../log/log.ts';

/** A socket, or an HTTP/2 session. */
export interface Connection {
  destroy(): unknown;
}

const LINE_EVERY_MS = 10_000;

/** Log lines about errors of one kind: one at once, then one per `LINE_EVERY_MS` with the number of errors between. */
export class ErrorLine {
  readonly #log: Logger;
  readonly #message: string;
  #nextAt = -Infinity;
  #unlogged = 0;

  constructor(log: Logger, message: string) {
    this.#log = log;
    this.#message = message;
  }

  write(err: unknown): void {
    const now = performance.now();
    if (now < this.#nextAt) {
      this.#unlogged += 1;
      return;
    }
    this.#nextAt = now + LINE_EVERY_MS;
    this.#log.warn({ err, errors_before: this.#unlogged }, this.#message);
    this.#unlogged = 0;
  }
}

export class Containment {
  readonly #line: ErrorLine;
  readonly #contained = new WeakSet<EventEmitter>();
  readonly #broken = new WeakSet<Connection>();

  constructor(log: Logger) {
    this.#line = new ErrorLine(log, 'a connection failed and was closed');
  }

  /** Contains errors thrown in listeners of `server` and of the emitters it emits: each ends only its connection. */
  serve(server: EventEmitter): void {
    const emit: EventEmitter['emit'] = server.emit.bind(server);
    server.emit = (event: string | symbol, ...args: unknown[]): boolean => {
      const connection = connectionOf(args);
      if (connection === null) return emit(event, ...args);
      for (const arg of args) if (isEmitter(arg)) this.#contain(arg, connection);
      return this.run(connection, () => emit(event, ...args));
    };
  }

  /** Runs `work`. An error that it throws ends `connection`. */
  run(connection: Connection, work: () => boolean): boolean {
    try {
      return work();
    } catch (error) {
      this.end(connection, error);
      return true;
    }
  }

  end(connection: Connection, error: unknown): void {
    if (this.#broken.has(connection)) return;
    this.#broken.add(connection);
    this.#line.write(error);
    connection.destroy();
  }

  #contain(emitter: EventEmitter, connection: Connection): void {
    if (this.#contained.has(emitter)) return;
    this.#contained.add(emitter);
    const emit: EventEmitter['emit'] = emitter.emit.bind(emitter);
    emitter.emit = (...args: Parameters<EventEmitter['emit']>): boolean => this.run(connection, () => emit(...args));
  }
}

/** Returns the connection that an event's argument is or belongs to. null: the event is the server's own. */
function connectionOf(args: readonly unknown[]): Connection | null {
  for (const arg of args) {
    if (!isEmitter(arg)) continue;
    // An HTTP/2 stream has `session`, an HTTP/1 request or response has `socket`; other emitters are connections.
    const { session, socket } = arg as { session?: unknown; socket?: unknown };
    for (const each of 'headersSent' in arg || 'httpVersion' in arg ? [session, socket, arg] : [arg]) {
      if (isEmitter(each) && 'destroy' in each) return each as unknown as Connection;
    }
  }
  return null;
}

function isEmitter(value: unknown): value is EventEmitter {
  return typeof value === 'object' && value !== null && 'emit' in value && 'on' in value;
}
