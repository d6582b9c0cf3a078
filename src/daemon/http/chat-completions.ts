/** `POST /v1/chat/completions`, OpenAI's shape: whole, or as a stream that ends with `[DONE]` only when it is complete. */
import { SvcError } from '../../protocol/errors.ts';
import { Collector } from '../../protocol/collect.ts';
import type { GenerateEvent, RouteEvent } from '../../protocol/generate.ts';
import { parseChatCompletion } from '../../protocol/openai-request.ts';
import {
  toChunk,
  toCompletion,
  toLastChunks,
  toOpenAiError,
  toToolCallDelta,
  type Answer,
  type Delta,
} from '../../protocol/openai-response.ts';
import { SSE_CONTENT_TYPE, SSE_DONE, SSE_HEARTBEAT, sseData } from '../../protocol/sse.ts';
import { readJson } from './body.ts';
import type { Exchange } from './exchange.ts';
import type { StreamFormat } from './reply.ts';

type Events = AsyncIterable<RouteEvent | GenerateEvent>;

const FORMAT: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: SSE_HEARTBEAT,
  encodeError: (error, id) => sseData(toOpenAiError(error, id)),
};

export async function chatCompletions(exchange: Exchange): Promise<void> {
  const { request, stream, includeUsage } = parseChatCompletion(await readJson(exchange));
  if (request.model?.startsWith('file:') === true) {
    throw new SvcError('MODEL_NOT_FOUND', 'a model is named by its id here, not by a file', {
      hint: 'register the file with `svc model add FILE`',
      param: 'model',
    });
  }
  const { id, arrivedAt, signal } = exchange;
  const events = exchange.services.router.route(request, { traceId: id, arrivedAt, signal });
  if (stream) await answerStream(exchange, events, includeUsage);
  else await answerWhole(exchange, events);
}

async function answerWhole({ id, reply }: Exchange, events: Events): Promise<void> {
  let answer = newAnswer(id, '');
  const collector = new Collector();
  for await (const event of events) {
    collector.add(event);
    if (event.type === 'start') answer = newAnswer(id, event.model);
    else if (event.type === 'finish') reply.json(200, toCompletion(answer, collector, event));
  }
}

/** Nothing is sent before the first text: until then an error is still a status that clients know how to retry. */
async function answerStream({ id, reply }: Exchange, events: Events, includeUsage: boolean): Promise<void> {
  reply.stream(FORMAT);
  let answer = newAnswer(id, '');
  let opening = '';
  const send = async (delta: Delta): Promise<void> => {
    await reply.write(opening + sseData(toChunk(answer, delta, includeUsage)));
    opening = '';
  };
  for await (const event of events) {
    switch (event.type) {
      case 'route':
        break;
      case 'start':
        answer = newAnswer(id, event.model);
        opening = sseData(toChunk(answer, { role: 'assistant', content: '' }, includeUsage));
        break;
      case 'text':
        await send({ content: event.text });
        break;
      case 'reasoning':
        await send({ reasoning_content: event.text });
        break;
      case 'tool_call':
        await send(toToolCallDelta(event));
        break;
      case 'finish':
        await reply.write(opening + toLastChunks(answer, event, includeUsage).map(sseData).join('') + SSE_DONE);
    }
  }
  reply.end();
}

function newAnswer(id: string, model: string): Answer {
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model };
}
