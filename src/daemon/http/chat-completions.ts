/** `POST /v1/chat/completions`, OpenAI's shape: whole, or as a stream that ends with `[DONE]` only when it is complete. */
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateEvent, RouteEvent } from '../../protocol/generate.ts';
import { parseChatCompletion } from '../../protocol/openai-request.ts';
import { toChunk, toCompletion, toLastChunks, toOpenAiError, type Answer } from '../../protocol/openai-response.ts';
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
  let text = '';
  for await (const event of events) {
    if (event.type === 'start') answer = newAnswer(id, event.model);
    else if (event.type === 'text') text += event.text;
    else if (event.type === 'finish') reply.json(200, toCompletion(answer, text, event));
  }
}

/** Nothing is sent before the first text: until then an error is still a status that clients know how to retry. */
async function answerStream({ id, reply }: Exchange, events: Events, includeUsage: boolean): Promise<void> {
  reply.stream(FORMAT);
  let answer = newAnswer(id, '');
  let opening = '';
  for await (const event of events) {
    if (event.type === 'start') {
      answer = newAnswer(id, event.model);
      opening = sseData(toChunk(answer, { role: 'assistant', content: '' }, includeUsage));
    } else if (event.type === 'text') {
      await reply.write(opening + sseData(toChunk(answer, { content: event.text }, includeUsage)));
      opening = '';
    } else if (event.type === 'finish') {
      await reply.write(opening + toLastChunks(answer, event, includeUsage).map(sseData).join('') + SSE_DONE);
    }
  }
  reply.end();
}

function newAnswer(id: string, model: string): Answer {
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model };
}
