/** `POST /v1/messages` in Anthropic's format: whole, or as a stream that ends with `message_stop` only if complete. */
import { toAnthropicError } from '../../../protocol/anthropic/error.ts';
import { MessageStream, PING, type StreamEvent } from '../../../protocol/anthropic/message-stream.ts';
import { toMessage, type AnswerOptions } from '../../../protocol/anthropic/message.ts';
import { parseMessages } from '../../../protocol/anthropic/messages-request.ts';
import { inTheirNames } from '../../../protocol/anthropic/names.ts';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile, type AnswerEvent } from '../../../protocol/generate.ts';
import { SSE_CONTENT_TYPE, sseEvent } from '../../../protocol/streams/sse.ts';
import { withoutContent } from '../../../protocol/streams/warm-up.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { Reply, StreamFormat } from '../reply.ts';
import { withErrors } from '../with-errors.ts';

type Events = AsyncIterable<AnswerEvent>;

const FORMAT: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: sseEvent(PING.type, PING),
  encodeError: (error, id) => sseEvent('error', toAnthropicError(error, id)),
};

export async function messages(exchange: Exchange): Promise<void> {
  const { request, stream, showsThinking, maxTokens, places } = parseMessages(await readJson(exchange));
  refuseFile(request);
  const { id, reply, services } = exchange;
  const options: AnswerOptions = { id, showsThinking, maxTokens };
  const routed = withErrors(services.router.route(request, contextOf(exchange)), (error) =>
    inTheirNames(error, places),
  );
  const events = maxTokens === 0 ? withoutContent(routed) : routed;
  if (stream) await answerStream(reply, events, options);
  else reply.json(200, toMessage(await Collector.of(events), options));
}

/**
 * Sends nothing before the first content or heartbeat: until then an error is an HTTP status, which clients can retry.
 */
async function answerStream(reply: Reply, events: Events, options: AnswerOptions): Promise<void> {
  reply.stream(FORMAT);
  const stream = new MessageStream(options);
  let opening: readonly StreamEvent[] = [];
  for await (const event of events) {
    const converted = stream.read(event);
    if (event.type === 'start') {
      opening = converted;
      continue;
    }
    const text = [...opening, ...converted].map((each) => sseEvent(each.type, each)).join('');
    opening = [];
    if (text !== '') await reply.write(text);
  }
  reply.end();
}
