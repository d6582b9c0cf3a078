/**
 * Refuses requests that a malicious web page could make a browser send to this machine. TCP only: browsers cannot
 * reach the control socket, which its file mode protects.
 *
 * - DNS rebinding: a page's own host name resolves to this machine. The Host header still names the
 *   page's host, so it must be an address of ours or an allowed name, on every route.
 * - Cross-site requests: a page posts here without reading the answer. Its Origin must be this very
 *   server, an origin in `http.origins` (cors.ts) or an allowed name, and the body must be declared as JSON, which no
 *   form can do. A route that takes forms has the Origin alone, which browsers send with every form that they post. A
 *   route of Ollama's that changes nothing takes any type from clients that send neither an Origin nor a
 *   Sec-Fetch-Site: with a POST, browsers send the first to every server, and both to this machine.
 * - Cross-site GETs that make the daemon work: a page's GET for a picture has no Origin, and a Sec-Fetch-Site only where
 *   browsers trust the connection: by https, and to addresses of loopback and `localhost`. With any other Host, a GET of
 *   scope `admin` needs a header of a key, which a page cannot send to another origin without a preflight; the key's
 *   value does not matter here, and the console's may be empty. Browsers send an Origin with every other method.
 */
import type { IncomingMessage } from 'node:http';
import { SvcError } from '../../protocol/errors.ts';

/**
 * Host names that always mean this machine. Ollama's clients connect to the address that the server listens on, hence
 * `0.0.0.0` and `::`. Like the addresses of loopback, they cannot be the name of a foreign page's host.
 */
const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '::1', '0.0.0.0', '::'];
/** Names to which browsers send Sec-Fetch-Site, also without TLS. */
const TRUSTED = /^(?:(?:.*\.)?localhost|127(?:\.\d{1,3}){3}|::1)$/;

export interface PageRules {
  /** The page is of an origin in `http.origins`. */
  readonly isListed: boolean;
  /** Pages of other origins may not even GET, nor may requests that cannot be told from theirs: the work that it causes is theirs, though they cannot read the answer. */
  readonly isOwn?: boolean;
}

/** Host and Origin. Throws INVALID_REQUEST or FORBIDDEN. */
export function checkOrigin(
  req: IncomingMessage,
  allowedHosts: readonly string[],
  { isListed, isOwn = false }: PageRules,
): void {
  const { host, origin } = req.headers;
  if (host === undefined) throw new SvcError('INVALID_REQUEST', 'the Host header is missing');
  // Node keeps only the first one; a proxy may have checked another.
  if (req.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length > 1) {
    throw new SvcError('INVALID_REQUEST', 'there is more than one Host header');
  }
  if (!isOurHost(host, req.socket.localAddress, allowedHosts)) {
    throw new SvcError('FORBIDDEN', 'the Host header names neither an address of this server nor an allowed host', {
      hint: 'add the name to http.allowed_hosts in the configuration',
    });
  }
  if (isListed || (!isOwn && (req.method === 'GET' || req.method === 'HEAD'))) return;

  const isForeign =
    origin === undefined
      ? // A GET for a picture or a script has no Origin, but every current browser tells where it is from.
        ['cross-site', 'same-site'].includes(String(req.headers['sec-fetch-site']))
      : !isSameOrigin(origin, host) && !allowedHosts.includes(hostName(originHost(origin)) ?? '');
  if (isForeign) {
    throw new SvcError('FORBIDDEN', 'requests from pages of another origin are refused', {
      hint: "add the page's origin to http.origins in the configuration",
    });
  }
  if (isOwn && mayBeForeign(req, host)) {
    throw new SvcError('FORBIDDEN', `with the Host ${host} this request cannot be told from one of a web page`, {
      hint: 'connect to 127.0.0.1 or localhost instead, or send the header x-api-key or authorization: Bearer',
    });
  }
}

/** True if a browser could have sent the request for any page, without a word about it. */
function mayBeForeign({ method, headers }: IncomingMessage, host: string): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) return false;
  if (TRUSTED.test(hostName(host) ?? '')) return false;
  // Browsers send a password of a URL or of the user's as Basic.
  return headers['x-api-key'] === undefined && !/^Bearer /i.test(headers.authorization ?? '');
}

/** `host`: a Host header or an authority; `localAddress`: local address of the connection. */
export function isOurHost(host: string, localAddress: string | undefined, allowedHosts: readonly string[]): boolean {
  const name = hostName(host);
  return name !== null && (allowedHosts.includes(name) || isAddress(localAddress, name));
}

/** Throws EXPECTATION_FAILED. */
export function checkExpectation({ headers: { expect } }: IncomingMessage): void {
  if (expect === undefined || expect.toLowerCase() === '100-continue') return;
  throw new SvcError('EXPECTATION_FAILED', 'the only supported expectation is 100-continue', {
    hint: 'send no Expect header',
  });
}

/**
 * Media types of a body, by the kind that a route takes. A page cannot send JSON to another origin without a preflight.
 */
const BODIES = {
  json: { type: /^application\/([\w.-]+\+)?json\s*(;|$)/i, name: 'JSON', example: 'application/json' },
  form: { type: /^multipart\/form-data\s*;/i, name: 'a form', example: 'multipart/form-data; boundary=…' },
};
/** `undeclared`: JSON; only web pages must declare it. */
export type BodyKind = keyof typeof BODIES | 'undeclared';

/** Throws INVALID_REQUEST. */
export function checkContentType({ headers }: IncomingMessage, kind: BodyKind): void {
  if (kind === 'undeclared' && headers.origin === undefined && headers['sec-fetch-site'] === undefined) return;
  const { type, name, example } = BODIES[kind === 'undeclared' ? 'json' : kind];
  if (type.test(headers['content-type'] ?? '')) return;
  throw new SvcError('INVALID_REQUEST', `the body must be ${name}`, { hint: `send content-type: ${example}` });
}

/** `name`, `name:port`, `[v6]:port` → the name without brackets, in lower case; null for anything else. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/?#@[\]\\]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase() ?? null;
}

/** The port is not compared: it may be mapped, and a page that can choose the port still cannot choose the name. */
function isAddress(localAddress: string | undefined, name: string): boolean {
  return LOOPBACK.includes(name) || name === localAddress?.replace(/^::ffff:/, '');
}

/** The origin `null`, which sandboxed pages and files send, has no host. */
function originHost(origin: string): string {
  return /^https?:\/\/(.*)$/i.exec(origin)?.[1] ?? '';
}

function isSameOrigin(origin: string, host: string): boolean {
  return originHost(origin).toLowerCase() === host.toLowerCase();
}
