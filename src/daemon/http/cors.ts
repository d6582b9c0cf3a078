/**
 * CORS for pages of the origins in `http.origins`, on every route over TCP: answers that they may read, and preflights.
 * A page of any other origin gets none of these headers, so that its browser withholds every answer from it.
 *
 * There is no credentials mode: a page sends its API key itself. Cookies are neither set nor read.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { KeyScope } from '../../protocol/keys.ts';
import { scopeOfOrigin, type OriginEntry } from '../../protocol/origins.ts';
import type { Reply } from './reply.ts';

const METHODS = 'GET, HEAD, POST, DELETE';

/** Request headers that the vendors' clients and common web apps send. `*` would not cover `authorization`. */
const REQUEST_HEADERS = [
  'authorization',
  'x-api-key',
  'content-type',
  'accept',
  'cache-control',
  'user-agent',
  'anthropic-version',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
  'openai-organization',
  'openai-project',
  'openai-beta',
  'idempotency-key',
  'last-event-id',
  'x-client-name',
  'x-requested-with',
  'http-referer',
  'x-title',
  'traceparent',
  'tracestate',
];

/** Headers with these prefixes are allowed when a preflight names them: the clients keep adding to them. */
const FAMILIES = /^(?:x-stainless|openai|anthropic|x-fern|x-ollama)-[a-z0-9-]{1,64}$/;

/** Response headers that a page may read, besides those that every page may. */
const EXPOSED = 'x-request-id, request-id, retry-after, x-should-retry, www-authenticate, allow';

/** Longest time that browsers keep a preflight's answer: Chromium's limit. */
const MAX_AGE_SECONDS = 7200;

/**
 * Sets the CORS headers of the answer. Returns the most that the page may do; undefined: the request is not from a page
 * of a listed origin.
 */
export function allowPage(
  { headers }: IncomingMessage,
  reply: Reply,
  origins: readonly OriginEntry[],
): KeyScope | undefined {
  if (origins.length === 0) return undefined;
  // Also without an Origin: a cache must not give that answer to a page.
  reply.setHeader('vary', 'Origin');
  const { origin } = headers;
  const scope = origin === undefined ? undefined : scopeOfOrigin(origins, origin);
  if (origin === undefined || scope === undefined) return undefined;
  reply.setHeader('access-control-allow-origin', origin);
  reply.setHeader('access-control-expose-headers', EXPOSED);
  return scope;
}

/** True if the request is a preflight. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/** Answers a preflight of a page that `allowPage` has let in. It carries no key, so none is checked. */
export function answerPreflight({ headers }: IncomingMessage, reply: Reply): void {
  reply.setHeader(
    'vary',
    'Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network',
  );
  reply.setHeader('access-control-allow-methods', METHODS);
  reply.setHeader('access-control-allow-headers', allowedHeaders(headers));
  reply.setHeader('access-control-max-age', String(MAX_AGE_SECONDS));
  if (headers['access-control-request-private-network'] === 'true')
    reply.setHeader('access-control-allow-private-network', 'true');
  reply.empty();
}

function allowedHeaders(headers: IncomingHttpHeaders): string {
  const asked = (headers['access-control-request-headers'] ?? '').split(',');
  const others = asked.map((name) => name.trim().toLowerCase()).filter((name) => FAMILIES.test(name));
  return [...new Set([...REQUEST_HEADERS, ...others])].join(', ');
}
