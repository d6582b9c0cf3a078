/** Server-sent events as the API families use them: without an event name, one JSON value each. */

export const SSE_CONTENT_TYPE = 'text/event-stream; charset=utf-8';

export function sseData(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** Ends an OpenAI stream; sent only if the answer is complete. */
export const SSE_DONE = 'data: [DONE]\n\n';

/** An SSE comment, which readers ignore: keeps proxies from closing an idle connection. */
export const SSE_HEARTBEAT = ': waiting\n\n';
