/** Background responses: their creation, and the streams of their events. */
import { shareOf } from '../../../../protocol/caller.ts';
import { responseIdOf } from '../../../../protocol/openai/responses/items.ts';
import type { ResponsesCall } from '../../../../protocol/openai/responses/request.ts';
import { SvcError } from '../../../../protocol/errors.ts';
import { LIMITS } from '../../../../protocol/limits.ts';
import { parseStreamQuery } from '../../../../protocol/openai/responses/stream-query.ts';
import { SSE_CONTENT_TYPE, SSE_HEARTBEAT, sseEvent } from '../../../../protocol/streams/sse.ts';
import { toOpenAiError } from '../../../../protocol/openai/error.ts';
import { invalid } from '../../../../protocol/validate.ts';
import { countBytes } from '../../body.ts';
import { contextOf, streamOfGet, untilLeft, type Exchange } from '../../exchange.ts';
import type { StreamFormat } from '../../reply.ts';
import { conversationOf, countStored } from './conversation.ts';

/** Answers at once, or streams the answer, which continues if the client disconnects. `body`: as it was sent. */
export async function createInBackground(exchange: Exchange, call: ResponsesCall, body: unknown): Promise<void> {
  const { services, id, span, reply } = exchange;
  if (!services.responses.enabled) {
    throw invalid('background', 'must be false: responses.store is off in the configuration');
  }
  if (call.store === false) throw invalid('store', 'must not be false for a background response');
  // The input is kept as the items of the conversation.
  const { input: _, ...repeated } = body as Readonly<Record<string, unknown>>;
  const repeatedBytes = Buffer.byteLength(JSON.stringify(repeated));
  if (repeatedBytes > LIMITS.repeatedBytes) throw tooMuch(repeatedBytes);
  const { caller } = contextOf(exchange);
  await services.router.admit(caller);
  const owner = shareOf(caller);
  const { items } = await conversationOf(exchange, call, owner);
  // Refused after the start, the client would start another response.
  if (!call.stream) reply.reserve(repeatedBytes);
  const run = await services.background.start({
    id: responseIdOf(id),
    owner,
    caller,
    trace: span.headers(),
    body: repeated,
    items,
  });
  if (!call.stream) {
    reply.json(200, run.response);
    return;
  }
  await untilLeft(exchange, send(exchange, run.eventsAfter(-1, exchange.signal)));
}

function tooMuch(bytes: number): SvcError {
  const limit = `at most ${String(LIMITS.repeatedBytes)} bytes without the input`;
  return new SvcError('REQUEST_TOO_LARGE', `a background request may have ${limit}; this one has ${String(bytes)}`, {
    hint: 'move long texts into the input, or send the request without background',
  });
}

/**
 * `GET /v1/responses/ID?stream=true`: the events after `starting_after`. False: there is no such background response.
 * Throws BUSY if its events are too large for now.
 */
export async function streamResponse(exchange: Exchange): Promise<boolean> {
  const { services, param: id, signal } = exchange;
  const { starting_after: after } = parseStreamQuery(exchange.query);
  const owner = shareOf(contextOf(exchange).caller);
  const run = await services.background.running(id, owner);
  if (run !== null) {
    countBytes(exchange, run.bytes);
    await streamOfGet(exchange, FORMAT, () => send(exchange, run.eventsAfter(after, signal)));
    return true;
  }
  await countStored(exchange, id);
  const events = await services.background.eventsAfter(after, id, owner);
  if (events === null) return false;
  await streamOfGet(exchange, FORMAT, () => send(exchange, events));
  return true;
}

type Batches = Iterable<readonly string[]> | AsyncIterable<readonly string[]>;

const FORMAT: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  // No event: its number would be that of another event when the stream is read again.
  heartbeat: SSE_HEARTBEAT,
  // No `sequence_number`: the response continues, and its next event has the next one.
  encodeError: (error, id) => sseEvent('error', { type: 'error', ...toOpenAiError(error, id) }),
};

/** The response continues if the client disconnects. */
async function send({ reply }: Exchange, batches: Batches): Promise<void> {
  reply.stream(FORMAT);
  for await (const events of batches) await reply.write(events.join(''));
  reply.end();
}
