/** Events of a background response, from any place on, until it ends. */
import { toOpenAiError } from '../../../../protocol/openai/chat-response.ts';
import { codeOf } from '../../../../protocol/openai/responses/response.ts';
import { SSE_CONTENT_TYPE, SSE_HEARTBEAT, sseEvent } from '../../../../protocol/sse.ts';
import type { Exchange } from '../../exchange.ts';

/** `after`: the `sequence_number` that the client has seen last; -1: none. REQUIRES: the response is the client's */
export async function tellEvents(exchange: Exchange, id: string, after: number): Promise<void> {
  const { reply, services, signal } = exchange;
  let last = after;
  reply.stream({
    contentType: SSE_CONTENT_TYPE,
    heartbeat: SSE_HEARTBEAT,
    encodeError: (error, requestId) => {
      const { error: detail } = toOpenAiError(error, requestId) as { readonly error: object };
      // Not an event of the response: the client goes on behind the last one, whose number this one has.
      const event = { code: codeOf(error), message: error.told, param: null, sequence_number: last, error: detail };
      return sseEvent('error', { type: 'error', ...event });
    },
  });
  for await (const event of services.background.follow(id, after, signal)) {
    await reply.write(sseEvent(event.type, event));
    last = event.sequence_number;
  }
  reply.end();
}
