/**
 * How the daemon ends. Whatever asks for it (a signal, the control socket, a bug) asks here; the
 * first one decides the reason and the exit code, a second one means "now". Then, in this order:
 *
 * 1. readiness turns 503, so that nobody new is sent here, and new generations get NOT_READY;
 * 2. generations under way may finish until the deadline, or until somebody asks again;
 * 3. what still runs ends with an error event, and the engine processes end;
 * 4. the listeners close, once the answers are out;
 *
 * and the caller records the exit, removes what it owns and flushes the log. Every wait is bounded.
 */
import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import type { Backend } from '../backends/backend.ts';
import type { LogDestination, Logger } from '../log/log.ts';
import { SvcError } from '../protocol/errors.ts';
import type { Router } from '../routing/router.ts';
import { ErrorLine } from './contain.ts';

export interface StopCause {
  readonly reason: string;
  readonly signal: NodeJS.Signals | null;
  /** Exit code of the daemon. */
  readonly code: number;
  /** How long generations under way may still take. */
  readonly drainTimeoutMs: number;
}

/** What a signal grants: `svc stop` names its own. */
const SIGNAL_DRAIN_MS = 30_000;
/** For error events to be written, and for engines to end. */
const LAST_WORDS_MS = 2_000;
const CLOSE_MS = 5_000;
/** Drain after a bug: generations under way have nothing to do with it, but the daemon may be damaged. */
const BUG_DRAIN_MS = 5_000;
/** Longer than all the waits of an end by a bug. */
const BROKEN_MS = 35_000;

export class Lifecycle {
  readonly #log: Logger;
  readonly #hurry = new AbortController();
  #cause: StopCause | null = null;
  #resolve: (cause: StopCause) => void = () => undefined;
  /** Resolves once somebody has asked for the end. */
  readonly stopping = new Promise<StopCause>((resolve) => (this.#resolve = resolve));

  constructor(log: Logger) {
    this.#log = log;
  }

  /** What SIGHUP does while the daemon runs. */
  onReload: () => void = () => undefined;

  /** Aborted when somebody asked a second time. */
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
      this.#log.warn({ reason }, 'asked again to stop: what is running ends now');
      this.#hurry.abort();
    }
  }

  /** From now on signals and bugs end the daemon in good order, and its last log lines are kept. */
  handleProcess(mode: 'background' | 'foreground' | 'service', destination: LogDestination): void {
    const onSignal = (signal: NodeJS.Signals): void => {
      this.stop({ reason: signal, signal, code: 0, drainTimeoutMs: SIGNAL_DRAIN_MS });
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
    // The terminal is gone: that is the end of what runs in it. Whoever has none is told to reload.
    const inTerminal = mode === 'foreground' && [0, 1, 2].some((descriptor) => isatty(descriptor));
    process.on('SIGHUP', inTerminal ? onSignal : (): void => this.onReload());
    this.#handleBugs(destination);
    process.on('exit', () => {
      destination.flushSync();
    });
  }

  /** The first bug ends the daemon after a short drain; those that follow from it are logged only. */
  #handleBugs(destination: LogDestination): void {
    const fromConnection = new ErrorLine(this.#log, 'a connection broke');
    const more = new ErrorLine(this.#log, 'another bug in svc while it stops');
    let isBroken = false;
    process.on('uncaughtException', (error: unknown, origin) => {
      if (isOfConnection(error)) return fromConnection.write(error);
      if (isBroken) return more.write(error);
      isBroken = true;
      this.#log.fatal({ err: error, origin }, 'a bug in svc: stopping');
      destination.flushSync();
      this.stop({ reason: describeBug(error), signal: null, code: 1, drainTimeoutMs: BUG_DRAIN_MS });
      // The bug may have broken the way out too.
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), BROKEN_MS).unref();
    });
  }
}

/**
 * Errors of HTTP/2 come from connections to the gRPC port alone, most of them from streams that are
 * over. contain.ts catches those of events; these come from timers and promises of the gRPC library.
 */
function isOfConnection(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && code.startsWith('ERR_HTTP2_');
}

/** Of an unknown error only the name: its message may hold anything. The log has its stack. */
function describeBug(error: unknown): string {
  return `a bug: ${error instanceof Error ? error.name : typeof error}, see \`svc logs\``;
}

export interface DrainOptions {
  readonly router: Router;
  readonly backends: readonly Backend[];
  readonly servers: readonly Server[];
  readonly grpc: { close(): Promise<void> };
  readonly timeoutMs: number;
  /** Ends the wait for what is under way. */
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
  if (cut > 0) log.warn({ cut }, 'ending what is still under way');
  else if (timeoutMs > 0) await within(CLOSE_MS, Promise.allSettled(backends.map((backend) => backend.close())), hurry);
  const error = new SvcError('NOT_READY', 'svc is stopping', {
    hint: 'start it again: svc start',
    retryAfterSeconds: 1,
  });
  await within(CLOSE_MS, Promise.allSettled(backends.map((backend) => backend.destroy(error))));

  await Promise.all([grpc.close(), ...servers.map((server) => closeServer(server))]);
}

/** Answers that are being written get their time; connections that only wait do not. */
async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await within(LAST_WORDS_MS, closed);
  server.closeAllConnections();
  await closed;
}

/** Resolves when `work` has, after `timeoutMs` at the latest, or when `hurry` is aborted. */
async function within(timeoutMs: number, work: Promise<unknown>, hurry?: AbortSignal): Promise<void> {
  const given = new AbortController();
  const signal = hurry === undefined ? given.signal : AbortSignal.any([given.signal, hurry]);
  await Promise.race([work, sleep(timeoutMs, undefined, { signal }).catch(() => undefined)]);
  given.abort();
}
