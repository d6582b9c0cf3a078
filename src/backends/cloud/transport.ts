/**
 * HTTP to one endpoint of a provider: connections that are kept, bounds, redirects, proxies, and what
 * may be reached at all (reach.ts).
 *
 * - Certificates are always checked, whatever NODE_TLS_REJECT_UNAUTHORIZED says.
 * - A key never leaves the origin it is for: a redirect elsewhere is followed without it, and a POST not at all.
 * - `HTTPS_PROXY` and `NO_PROXY` count for https, never for this machine. Plain http goes to this machine and to
 *   private networks only, straight: behind a proxy nobody could tell where it ends. Names are looked up by
 *   the proxy then; addresses and the names of metadata services are refused before it is asked.
 * - undici is imported by the first request: a daemon without providers does without it.
 */
import type { Readable } from 'node:stream';
import { Dispatchers } from '../../net/dispatchers.ts';
import type { Reach } from '../../net/reach.ts';
import { redirectOf } from '../../net/redirect.ts';
import { SvcError } from '../../protocol/errors.ts';
import { connectionError } from './connection-error.ts';
import { checkHost, guardedLookup } from './reach.ts';
import type { WireRequest } from './wire.ts';

const CONNECT_TIMEOUT_MS = 10_000;
/** A long prompt on a slow machine may be read for minutes before the first byte of the answer. */
const HEADERS_TIMEOUT_MS = 30 * 60_000;
const KEEP_ALIVE_MS = 30_000;
const CONNECTIONS = 256;
const REDIRECTS = 3;

export interface TransportOptions {
  /** Without a slash at the end. */
  readonly baseUrl: string;
  /** See Provider. */
  readonly isDeclared: boolean;
  readonly idleTimeoutMs: number;
}

export interface SendOptions {
  readonly signal: AbortSignal;
  /** The request's headers carry a key. */
  readonly hasKey: boolean;
  /** Told to the provider as `x-request-id`. null: nobody would ask for it. */
  readonly traceId: string | null;
}

export interface Reply {
  readonly status: number;
  /** Of a response header, in lower case. */
  header(name: string): string | undefined;
  /** To be read to its end or destroyed. Errors of it are for `failure`. */
  readonly body: Readable;
  /** What an error of the body means. */
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
  /** Why nothing more is sent. */
  #ended: SvcError | null = null;
  #closed: Promise<unknown> | null = null;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** Resolves with the headers of the answer, whatever its status. Throws `signal.reason`, or PROVIDER_FAILED. */
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
          ...(isHome ? { ...traced(options.traceId), ...request.headers } : {}),
        },
        body: request.body,
        signal: options.signal,
      });
      const next = redirectOf(reply, url, () => notFollowed(url, 'redirects to what is no URL'));
      if (next === null) return reply;
      reply.body.destroy();
      if (redirects === REDIRECTS) throw notFollowed(url, 'redirects too often');
      if (method === 'POST' && (next.origin !== origin || reply.status === 303)) {
        throw notFollowed(url, `redirects to ${next.origin}, where no prompt is sent`);
      }
      url = next;
    }
  }

  /** Lets answers come to their ends. Resolves when every connection is closed. */
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
    const undici = await import('undici');
    signal.throwIfAborted();
    try {
      // Asked now, a dispatcher would be made that nobody closes.
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
      // Whoever reads is told too; whoever has gone away needs no telling.
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

function traced(id: string | null): Record<string, string> {
  return id === null ? {} : { 'x-request-id': id };
}

function reachOf(url: URL, isDeclared: boolean, hasKey: boolean): Reach {
  if (url.protocol === 'https:') return isDeclared ? NETWORK : INTERNET;
  if (!isDeclared) return NOWHERE;
  return hasKey ? THIS_MACHINE : NEIGHBOURS;
}

function notFollowed(from: URL, what: string): SvcError {
  return new SvcError('PROVIDER_FAILED', `${from.origin} ${what}`, {
    hint: 'set the address that it means: svc provider set NAME --base-url URL',
    retryable: false,
  });
}

function parseUrl(text: string): URL {
  if (URL.canParse(text)) {
    const url = new URL(text);
    if (/^https?:$/.test(url.protocol)) return url;
  }
  throw new SvcError('CONFIG_INVALID', 'the base URL of the provider is no http or https URL', {
    hint: 'set another: svc provider set NAME --base-url URL',
  });
}
