/** Server-sent events as the API families use them: one JSON value each, in some with a name. */

export const SSE_CONTENT_TYPE = 'text/event-stream; charset=utf-8';

export function sseData(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** An event with a name, without which Anthropic's clients ignore it. */
export function sseEvent(name: string, value: unknown): string {
  return `event: ${name}\n${sseData(value)}`;
}

/** Ends an OpenAI stream; sent only if the answer is complete. */
export const SSE_DONE = 'data: [DONE]\n\n';

/** An SSE comment, which readers ignore: keeps proxies from closing an idle connection. */
export const SSE_HEARTBEAT = ': waiting\n\n';
