/** Server-sent events as the API families use them: unnamed, one JSON value each. */

export const SSE_CONTENT_TYPE = 'text/event-stream; charset=utf-8';

export function sseData(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** Ends a complete OpenAI stream, and only a complete one. */
export const SSE_DONE = 'data: [DONE]\n\n';

/** A comment, which every reader skips: it keeps proxies from closing a connection that is only waiting. */
export const SSE_HEARTBEAT = ': waiting\n\n';
