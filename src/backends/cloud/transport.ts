/**
 * HTTP to one endpoint of a provider: connection pool, limits, redirects, proxies, and the SSRF guard (reach.ts).
 *
 * - Certificates are always verified, whatever NODE_TLS_REJECT_UNAUTHORIZED says.
 * - A key is sent only to its own origin: a redirect elsewhere is followed without it, and for a POST not at all.
 * - `HTTPS_PROXY` and `NO_PROXY` apply to https, never to this machine. Plain http goes only to this machine and
 *   private networks, without a proxy, because the proxy's target cannot be checked. With a proxy, the proxy resolves
 *   names; addresses and names of metadata services are refused before.
 * - The first request imports undici, so a daemon without providers never loads it.
 */
import type { Readable } from 'node:stream';
import { Dispatchers } from '../../net/dispatchers.ts';
import type { Reach } from '../../net/reach.ts';
import { redirectOf } from '../../net/redirect.ts';
import { loadUndici } from '../../net/undici.ts';
import { SvcError } from '../../protocol/errors.ts';
import { connectionError } from './connection-error.ts';
import { checkHost, guardedLookup } from './reach.ts';
import type { WireRequest } from './wire.ts';

const CONNECT_TIMEOUT_MS = 10_000;
/** Prefill of a long prompt on a slow machine may take minutes before the first byte of the answer. */
const HEADERS_TIMEOUT_MS = 30 * 60_000;
const KEEP_ALIVE_MS = 30_000;
const CONNECTIONS = 256;
const REDIRECTS = 3;

export interface TransportOptions {
  /** Without trailing slash. */
  readonly baseUrl: string;
  /** See Provider. */
  readonly isDeclared: boolean;
  readonly idleTimeoutMs: number;
}

export interface SendOptions {
  readonly signal: AbortSignal;
  /** The request's headers carry a key. */
  readonly hasKey: boolean;
  /** Sent to the provider as `x-request-id`. null: not sent. */
  readonly traceId: string | null;
  /** Headers of the trace (`traceparent`), sent like `x-request-id`. Absent: none. */
  readonly trace?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  /** `name`: a response header in lower case. */
  header(name: string): string | undefined;
  /** The caller must read it to its end or destroy it, and pass its errors to `failure`. */
  readonly body: Readable;
  /** Converts an error of the body. */
  failure(error: unknown): SvcError;
}

const NETWORK: Reach = new Set(['public', 'private', 'loopback']);
const INTERNET: Reach = new Set(['public']);
const NEIGHBOURS: Reach = new Set(['private', 'loopback']);
const THIS_MACHINE: Reach = new Set(['loopback']);
const NOWHERE: Reach = new Set();

export class Transport {
  readonly #options: TransportOptions;
  readonly #dispatchers = new Dispatchers({
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    lookup: guardedLookup,
    pool: { connections: CONNECTIONS, keepAliveTimeout: KEEP_ALIVE_MS },
  });
  /** Error of further requests, after `close` or `destroy`. */
  #ended: SvcError | null = null;
  #closed: Promise<unknown> | null = null;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** Resolves with the response headers, whatever the status. Throws `signal.reason`, or PROVIDER_FAILED. */
  async send(request: WireRequest, options: SendOptions): Promise<Reply> {
    const { baseUrl, isDeclared } = this.#options;
    const method = request.body === null ? 'GET' : 'POST';
    const origin = parseUrl(baseUrl).origin;
    let url = parseUrl(baseUrl + request.path);
    for (let redirects = 0; ; redirects++) {
      const isHome = url.origin === origin;
      const reply = await this.#ask(url, {
        reach: reachOf(url, isHome && isDeclared, isHome && options.hasKey),
        method,
        headers: {
          accept: request.body === null ? 'application/json' : 'text/event-stream, application/json',
          'accept-encoding': 'identity',
          'user-agent': 'svc',
          ...(isHome ? { ...traced(options), ...request.headers } : {}),
        },
        body: request.body,
        signal: options.signal,
      });
      const next = redirectOf(reply, url, () => notFollowed(url, 'redirects to an invalid URL'));
      if (next === null) return reply;
      reply.body.destroy();
      if (redirects === REDIRECTS) throw notFollowed(url, 'redirects too many times');
      if (method === 'POST' && (next.origin !== origin || reply.status === 303)) {
        throw notFollowed(url, `redirects to ${next.origin}, and svc sends prompts only to the configured origin`);
      }
      url = next;
    }
  }

  /** Lets running requests finish. Resolves when every connection is closed. */
  async close(): Promise<void> {
    this.#ended ??= new SvcError('NOT_READY', 'svc is stopping', { retryAfterSeconds: 1 });
    this.#closed ??= this.#dispatchers.close();
    await this.#closed;
  }

  async destroy(error: SvcError): Promise<void> {
    this.#ended ??= error;
    const destroyed = this.#dispatchers.destroy(error);
    this.#closed ??= destroyed;
    await destroyed;
  }

  async #ask(
    url: URL,
    request: {
      readonly reach: Reach;
      readonly method: 'GET' | 'POST';
      readonly headers: Readonly<Record<string, string>>;
      readonly body: object | null;
      readonly signal: AbortSignal;
    },
  ): Promise<Reply> {
    const { reach, method, headers, body, signal } = request;
    const { idleTimeoutMs } = this.#options;
    checkHost(url.hostname, reach);
    const failure = (error: unknown): SvcError => connectionError(error, url, { idleTimeoutMs });
    const undici = await loadUndici();
    signal.throwIfAborted();
    try {
      // `dispatchers.for` would create a dispatcher that is never closed.
      if (this.#ended !== null) throw this.#ended;
      const {
        statusCode,
        headers: answered,
        body: readable,
      } = await undici.request(url, {
        dispatcher: this.#dispatchers.for(undici, url, reach),
        method,
        headers: body === null ? headers : { 'content-type': 'application/json', ...headers },
        body: body === null ? null : JSON.stringify(body),
        signal,
        headersTimeout: HEADERS_TIMEOUT_MS,
        bodyTimeout: idleTimeoutMs,
      });
      // Avoids an uncaught exception; a reader gets the error itself.
      readable.on('error', () => undefined);
      return {
        status: statusCode,
        header: (name) => {
          const value = answered[name];
          return typeof value === 'object' ? value[0] : value;
        },
        body: readable,
        failure,
      };
    } catch (error) {
      signal.throwIfAborted();
      throw failure(error);
    }
  }
}

function traced({ traceId, trace }: SendOptions): Record<string, string> {
  return traceId === null ? {} : { 'x-request-id': traceId, ...trace };
}

function reachOf(url: URL, isDeclared: boolean, hasKey: boolean): Reach {
  if (url.protocol === 'https:') return isDeclared ? NETWORK : INTERNET;
  if (!isDeclared) return NOWHERE;
  return hasKey ? THIS_MACHINE : NEIGHBOURS;
}

function notFollowed(from: URL, what: string): SvcError {
  return new SvcError('PROVIDER_FAILED', `${from.origin} ${what}`, {
    hint: 'set the target as the base URL: svc provider set NAME --base-url URL',
    retryable: false,
  });
}

function parseUrl(text: string): URL {
  if (URL.canParse(text)) {
    const url = new URL(text);
    if (/^https?:$/.test(url.protocol)) return url;
  }
  throw new SvcError('CONFIG_INVALID', 'the base URL of the provider is not an http or https URL', {
    hint: 'set a valid one: svc provider set NAME --base-url URL',
  });
}
