/**
 * How the daemon ends. Every stop request (a signal, the control socket, a bug) comes here. The first
 * one sets the reason and the exit code; a second one means "now". Then, in this order:
 *
 * 1. readiness turns 503, so that load balancers send nothing new, and new generations get NOT_READY;
 * 2. generations in flight may finish until the deadline, or until a second stop request;
 * 3. those that still run end with an error event, and the engine processes save their prefixes, unless there is no
 *    time at all, and end;
 * 4. the listeners close once the answers are written.
 *
 * The caller records the exit, removes what it owns and flushes the log. Every wait is bounded.
 */
import type { Server } from 'node:http';
import { within } from '../files/within.ts';
import { isatty } from 'node:tty';
import type { Backend } from '../backends/backend.ts';
import type { LogDestination, Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { LastExit } from '../protocol/records.ts';
import type { Router } from '../routing/router.ts';
import { ErrorLine } from './contain.ts';

export interface StopCause {
  readonly reason: string;
  readonly signal: NodeJS.Signals | null;
  /** Exit code of the daemon. */
  readonly code: number;
  /** Time that generations in flight may still take. */
  readonly drainTimeoutMs: number;
}

/** Drain timeout after a signal; `svc stop` sends its own. */
const SIGNAL_DRAIN_MS = 30_000;
/** Time for error events to be written. */
const LAST_WORDS_MS = 2_000;
/** Time for backends and their engines to end. */
const CLOSE_MS = 5_000;
/** Drain after a bug: generations in flight may be unaffected, but the daemon may be damaged. */
const BUG_DRAIN_MS = 5_000;
/** Longer than all waits of a stop after a bug together. */
const BROKEN_MS = 35_000;

export class Lifecycle {
  readonly #log: Logger;
  readonly #hurry = new AbortController();
  #cause: StopCause | null = null;
  #resolve: (cause: StopCause) => void = () => undefined;
  /** Resolves with the first stop request. */
  readonly stopping = new Promise<StopCause>((resolve) => (this.#resolve = resolve));

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Called on SIGHUP while the daemon runs. */
  onReload: () => void = () => undefined;

  /** Aborted by the second stop request. */
  get hurry(): AbortSignal {
    return this.#hurry.signal;
  }

  stop(cause: StopCause): void {
    const { reason, drainTimeoutMs } = cause;
    if (this.#cause === null) {
      this.#cause = cause;
      this.#log.info({ reason, drain_timeout_ms: drainTimeoutMs }, 'stopping');
      this.#resolve(cause);
    } else if (!this.#hurry.signal.aborted) {
      this.#log.warn({ reason }, 'second stop request: ending the requests in flight now');
      this.#hurry.abort();
    }
  }

  /** Installs the handlers of signals and uncaught errors: both end the daemon in order and flush the log. */
  handleProcess(mode: 'background' | 'foreground' | 'service', destination: LogDestination): void {
    const onSignal = (signal: NodeJS.Signals): void => {
      this.stop({ reason: signal, signal, code: 0, drainTimeoutMs: SIGNAL_DRAIN_MS });
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
    // In a terminal SIGHUP means that the terminal was closed: stop. Without a terminal it means reload.
    const inTerminal = mode === 'foreground' && [0, 1, 2].some((descriptor) => isatty(descriptor));
    process.on('SIGHUP', inTerminal ? onSignal : (): void => this.onReload());
    this.#handleBugs(destination);
    process.on('exit', () => {
      destination.flushSync();
    });
  }

  /** The first uncaught error ends the daemon after a short drain; later ones are only logged. */
  #handleBugs(destination: LogDestination): void {
    const fromConnection = new ErrorLine(this.#log, 'a connection failed');
    const more = new ErrorLine(this.#log, 'another bug in svc while it stops');
    let isBroken = false;
    process.on('uncaughtException', (error: unknown, origin) => {
      if (isOfConnection(error)) return fromConnection.write(error);
      if (isBroken) return more.write(error);
      isBroken = true;
      this.#log.fatal({ err: error, origin }, 'a bug in svc: stopping');
      destination.flushSync();
      this.stop({ reason: describeBug(error), signal: null, code: 1, drainTimeoutMs: BUG_DRAIN_MS });
      // The bug may have broken the shutdown as well.
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), BROKEN_MS).unref();
    });
  }
}

/**
 * Returns true for an HTTP/2 error. These come only from connections to the gRPC port, mostly from streams that have
 * ended. contain.ts catches those thrown in events; these here come from timers and promises of the gRPC library.
 */
function isOfConnection(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && code.startsWith('ERR_HTTP2_');
}

/** Returns only the name of an unknown error: its message may hold user text. The log has the stack. */
function describeBug(error: unknown): string {
  return `a bug: ${error instanceof Error ? error.name : typeof error}, see \`svc logs\``;
}

export function warnAtStart(log: Logger, lastExit: LastExit | null): void {
  if (process.getuid?.() === 0) log.warn('svc runs as root and needs no privileges: run it as an ordinary user');
  if (lastExit === null || lastExit.code === 0) return;
  log.warn({ last_exit: lastExit }, 'the previous daemon did not exit cleanly');
}

export interface DrainOptions {
  readonly router: Router;
  readonly backends: readonly Backend[];
  readonly servers: readonly Server[];
  readonly grpc: { close(): Promise<void> };
  readonly timeoutMs: number;
  /** Ends the wait for requests in flight. */
  readonly hurry: AbortSignal;
  readonly log: Logger;
}

/** Steps 1 to 4. Never rejects; when it resolves, no socket, generation or engine process is left. */
export async function drain({ router, backends, servers, grpc, timeoutMs, hurry, log }: DrainOptions): Promise<void> {
  router.drain();
  const { active, waiting } = router;
  if (active + waiting > 0) log.info({ active, waiting, timeout_ms: timeoutMs }, 'waiting for what is under way');
  const idle = router.idle();
  await within(timeoutMs, idle, hurry);

  const cut = router.active + router.waiting;
  const error = new SvcError('NOT_READY', 'svc is stopping', {
    hint: 'start it again: svc start',
    retryAfterSeconds: 1,
  });
  if (cut > 0) log.warn({ cut }, 'ending the requests still in flight');
  // Otherwise those without an answer yet would be tried again.
  router.running.endAll(error);
  if (timeoutMs > 0) {
    const end = (backend: Backend): Promise<void> =>
      cut === 0 ? backend.close() : (backend.interrupt?.(error) ?? backend.destroy(error));
    await within(CLOSE_MS, Promise.allSettled(backends.map(end)), hurry);
  }
  await within(CLOSE_MS, Promise.allSettled(backends.map((backend) => backend.destroy(error))));

  await Promise.all([grpc.close(), ...servers.map((server) => closeServer(server))]);
}

/** Closes `server`. Answers that are being written get LAST_WORDS_MS; idle connections are closed. */
async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await within(LAST_WORDS_MS, closed);
  server.closeAllConnections();
  await closed;
}
