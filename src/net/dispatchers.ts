/** HTTP connection pools, direct or through `HTTPS_PROXY` and `NO_PROXY`. */
import type { LookupFunction } from 'node:net';
import type * as Undici from 'undici';
import { kindOfHost, type Reach } from './reach.ts';
import { loadUndici } from './undici.ts';

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
    const isDirect = ignoresProxy(url);
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

/**
 * True if requests to `url` go through a proxy, or fail because its URL is invalid. Only undici knows how it interprets
 * `NO_PROXY`. So it gets a request whose connectors always fail: if it calls the one for direct connections, there is
 * no proxy.
 */
export async function isProxied(url: URL): Promise<boolean> {
  if (ignoresProxy(url)) return false;
  const undici = await loadUndici();
  let isDirect = false;
  const refused = new Error('no connection is wanted');
  const refuse: Undici.buildConnector.connector = (_options, done) => {
    done(refused, null);
  };
  const options: Undici.EnvHttpProxyAgent.Options = {
    connect: (...args) => {
      isDirect = true;
      refuse(...args);
    },
    clientFactory: (origin) => new undici.Client(origin, { connect: refuse }),
  };
  try {
    const agent = new undici.EnvHttpProxyAgent(options);
    await agent.request({ origin: url.origin, path: '/', method: 'HEAD' }).catch(() => undefined);
    await agent.destroy();
  } catch {
    // Thrown by the constructor.
    return true;
  }
  return !isDirect;
}

function ignoresProxy(url: URL): boolean {
  return url.protocol === 'http:' || kindOfHost(url.hostname) === 'loopback';
}
