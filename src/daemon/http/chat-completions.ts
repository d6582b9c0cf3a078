/** `POST /v1/chat/completions` in OpenAI's format: whole, or as a stream that ends with `[DONE]` only if complete. */
import { Collector } from '../../protocol/collect.ts';
import { refuseFile, type GenerateEvent, type RouteEvent, type TokenLogprobs } from '../../protocol/generate.ts';
import { parseChatCompletion, type ChatCompletionCall } from '../../protocol/openai-request.ts';
import {
  toChunk,
  toCompletion,
  toLastChunks,
  toOpenAiError,
  toToolCallDelta,
  type Answer,
  type Delta,
} from '../../protocol/openai-response.ts';
import { renamed } from '../../protocol/validate.ts';
import { SSE_CONTENT_TYPE, SSE_DONE, SSE_HEARTBEAT, sseData } from '../../protocol/sse.ts';
import { readJson } from './body.ts';
import { contextOf, type Exchange } from './exchange.ts';
import type { StreamFormat } from './reply.ts';

type Events = AsyncIterable<RouteEvent | GenerateEvent>;

const FORMAT: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: SSE_HEARTBEAT,
  encodeError: (error, id) => sseData(toOpenAiError(error, id)),
};

export async function chatCompletions(exchange: Exchange): Promise<void> {
  const { request, stream, includeUsage, formatNames } = parseChatCompletion(await readJson(exchange));
  refuseFile(request);
  const answer = exchange.services.router.route(request, contextOf(exchange));
  const events = formatNames === null ? answer : inTheirWords(answer, formatNames);
  if (stream) await answerStream(exchange, events, includeUsage);
  else await answerWhole(exchange, events);
}

/** Renames the response format in errors to the caller's field names. */
async function* inTheirWords(events: Events, { ours, theirs }: NonNullable<ChatCompletionCall['formatNames']>): Events {
  try {
    yield* events;
  } catch (error) {
    throw renamed(error, ours, theirs);
  }
}

async function answerWhole({ id, reply }: Exchange, events: Events): Promise<void> {
  const head = headOf(id);
  reply.json(200, toCompletion(head, await Collector.of(events)));
}

/** Sends nothing before the first text: until then an error is an HTTP status, which clients can retry. */
async function answerStream({ id, reply }: Exchange, events: Events, includeUsage: boolean): Promise<void> {
  reply.stream(FORMAT);
  const facts = new Collector();
  let head = headOf(id);
  let opening = '';
  const send = async (delta: Delta, logprobs?: readonly TokenLogprobs[]): Promise<void> => {
    await reply.write(opening + sseData(toChunk(head, delta, includeUsage, logprobs)));
    opening = '';
  };
  for await (const event of events) {
    facts.note(event);
    switch (event.type) {
      case 'route':
        break;
      case 'start':
        head = { ...head, model: event.model };
        opening = sseData(toChunk(head, { role: 'assistant', content: '' }, includeUsage));
        break;
      case 'text':
        await send({ content: event.text }, event.logprobs);
        break;
      case 'reasoning':
        await send({ reasoning_content: event.text });
        break;
      case 'tool_call':
        await send(toToolCallDelta(event));
        break;
      case 'finish': {
        const last = toLastChunks(head, facts, includeUsage);
        await reply.write(opening + last.map(sseData).join('') + SSE_DONE);
      }
    }
  }
  reply.end();
}

/** The fields that all chunks of an answer repeat; `model` is known after `start`. */
function headOf(id: string): Answer {
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model: '' };
}
