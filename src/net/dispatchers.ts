/** HTTP connection pools, direct or through `HTTPS_PROXY` and `NO_PROXY`. */
import type { LookupFunction } from 'node:net';
import type * as Undici from 'undici';
import { kindOfHost, type Reach } from './reach.ts';

export interface DispatchersOptions {
  readonly connectTimeoutMs: number;
  /** Returns the name lookup for connections within this reach (guardedLookup). */
  readonly lookup: (reach: Reach) => LookupFunction;
  /** Certificates of authorities to trust instead of the default ones, in PEM. */
  readonly ca?: string | undefined;
  /** Maximum connections per origin, and how long idle ones are kept. */
  readonly pool?: Pick<Undici.Agent.Options, 'connections' | 'keepAliveTimeout'>;
}

/**
 * One undici dispatcher per reach: a connection is reused only by requests that may reach its address. Plain http and
 * loopback bypass the proxy. Certificates are always verified, whatever NODE_TLS_REJECT_UNAUTHORIZED says.
 */
export class Dispatchers {
  readonly #options: DispatchersOptions;
  readonly #dispatchers = new Map<string, Undici.Dispatcher>();

  constructor(options: DispatchersOptions) {
    this.#options = options;
  }

  /**
   * Returns the dispatcher for `url`, which this object owns. Must not be called after `close` or `destroy`, because it
   * may create a new one.
   * @param undici passed in, so that a daemon that makes no requests never imports it
   */
  for(undici: typeof Undici, url: URL, reach: Reach): Undici.Dispatcher {
    const isDirect = url.protocol === 'http:' || kindOfHost(url.hostname) === 'loopback';
    const name = [isDirect, ...reach].join();
    const known = this.#dispatchers.get(name);
    if (known !== undefined) return known;
    const { connectTimeoutMs, lookup, pool, ca } = this.#options;
    const tls = { timeout: connectTimeoutMs, rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
    const options = { ...pool, connect: { ...tls, lookup: lookup(reach) }, requestTls: tls, proxyTls: tls };
    const dispatcher = isDirect ? new undici.Agent(options) : new undici.EnvHttpProxyAgent(options);
    this.#dispatchers.set(name, dispatcher);
    return dispatcher;
  }

  /** Lets running requests finish. Resolves when every connection is closed. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#dispatchers.values(), (dispatcher) => dispatcher.close()));
  }

  /** Fails running requests with `error`, if given. Resolves when every connection is closed. */
  async destroy(error: Error | null = null): Promise<void> {
    await Promise.all(Array.from(this.#dispatchers.values(), (dispatcher) => dispatcher.destroy(error)));
  }
}
