/** Connections over HTTP that are kept, and what they lead through: straight, or `HTTPS_PROXY` and `NO_PROXY`. */
import type { LookupFunction } from 'node:net';
import type * as Undici from 'undici';
import { kindOfHost, type Reach } from './reach.ts';

export interface DispatchersOptions {
  readonly connectTimeoutMs: number;
  /** Looks names up for a connection that may lead there (guardedLookup). */
  readonly lookup: (reach: Reach) => LookupFunction;
  /** How many connections to an origin there may be, and how long one that rests is kept. */
  readonly pool?: Pick<Undici.Agent.Options, 'connections' | 'keepAliveTimeout'>;
}

/**
 * One undici dispatcher for each reach: a connection is only ever used by requests that may go where it
 * leads. Plain http, and what leads to this machine, takes no proxy. Certificates are always checked,
 * whatever NODE_TLS_REJECT_UNAUTHORIZED says.
 */
export class Dispatchers {
  readonly #options: DispatchersOptions;
  readonly #dispatchers = new Map<string, Undici.Dispatcher>();

  constructor(options: DispatchersOptions) {
    this.#options = options;
  }

  /**
   * The one for a request to `url`; stays ours. After `close` or `destroy` a new one may be made: who has
   * ended must not ask.
   * @param undici is imported by whoever makes the first request: a daemon that makes none does without it
   */
  for(undici: typeof Undici, url: URL, reach: Reach): Undici.Dispatcher {
    const isDirect = url.protocol === 'http:' || kindOfHost(url.hostname) === 'loopback';
    const name = [isDirect, ...reach].join();
    const known = this.#dispatchers.get(name);
    if (known !== undefined) return known;
    const { connectTimeoutMs, lookup, pool } = this.#options;
    const tls = { timeout: connectTimeoutMs, rejectUnauthorized: true };
    const options = { ...pool, connect: { ...tls, lookup: lookup(reach) }, requestTls: tls, proxyTls: tls };
    const dispatcher = isDirect ? new undici.Agent(options) : new undici.EnvHttpProxyAgent(options);
    this.#dispatchers.set(name, dispatcher);
    return dispatcher;
  }

  /** Lets answers come to their ends. Resolves when every connection is closed. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#dispatchers.values(), (dispatcher) => dispatcher.close()));
  }

  /** Requests under way fail with `error`, if one is given. Resolves when every connection is closed. */
  async destroy(error: Error | null = null): Promise<void> {
    await Promise.all(Array.from(this.#dispatchers.values(), (dispatcher) => dispatcher.destroy(error)));
  }
}
