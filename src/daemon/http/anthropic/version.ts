/** Tells clients of Anthropic's API from others, on the paths that both have. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Handler } from '../exchange.ts';

/** Every version is served alike. */
export function isAnthropic(headers: IncomingHttpHeaders): boolean {
  return headers['anthropic-version'] !== undefined;
}

/** A handler that answers clients of Anthropic's API as `theirs`. */
export function byClient(theirs: Handler, others: Handler): Handler {
  return (exchange) => (isAnthropic(exchange.req.headers) ? theirs(exchange) : others(exchange));
}
