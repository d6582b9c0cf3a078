/** `POST /v1/chat/completions` in OpenAI's format: whole, or as a stream that ends with `[DONE]` only if complete. */
import { Collector } from '../../../protocol/collect.ts';
import { SvcError } from '../../../protocol/errors.ts';
import {
  refuseFile,
  type GenerateEvent,
  type GenerateRequest,
  type RouteEvent,
  type TokenLogprobs,
} from '../../../protocol/generate.ts';
import { parseChatCompletion, type ChatCompletionCall } from '../../../protocol/openai/chat-request.ts';
import {
  toChunk,
  toCompletion,
  toLastChunk,
  toOpenAiError,
  toToolCallDelta,
  toUsageChunk,
  type Answer,
  type Delta,
} from '../../../protocol/openai/chat-response.ts';
import { renamed } from '../../../protocol/validate.ts';
import { SSE_CONTENT_TYPE, SSE_DONE, SSE_HEARTBEAT, sseData } from '../../../protocol/sse.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { Reply, StreamFormat } from '../reply.ts';

type Events = AsyncIterable<RouteEvent | GenerateEvent>;

const FORMAT: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: SSE_HEARTBEAT,
  encodeError: (error, id) => sseData(toOpenAiError(error, id)),
};

export async function chatCompletions(exchange: Exchange): Promise<void> {
  const { request, choices, stream, includeUsage, formatNames } = parseChatCompletion(await readJson(exchange));
  refuseFile(request);
  // The choices share the prompt through the prefix cache.
  const failing = new AbortController();
  const context = contextOf(exchange);
  const signal = choices === 1 ? context.signal : AbortSignal.any([context.signal, failing.signal]);
  const all = Array.from({ length: choices }, (_, index) => {
    const events = exchange.services.router.route(ofChoice(request, index), { ...context, signal });
    return formatNames === null ? events : inTheirWords(events, formatNames);
  });
  if (stream) await answerStream(exchange, all, failing, includeUsage);
  else await answerWhole(exchange, all, failing);
}

/** As llama-server: with a seed, the choices have it and those after it. */
function ofChoice(request: GenerateRequest, index: number): GenerateRequest {
  const { sampling } = request;
  if (index === 0 || sampling.seed === undefined) return request;
  return { ...request, sampling: { ...sampling, seed: (sampling.seed + index) % 2 ** 32 } };
}

/** Renames the response format in errors to the caller's field names. */
async function* inTheirWords(events: Events, { ours, theirs }: NonNullable<ChatCompletionCall['formatNames']>): Events {
  try {
    yield* events;
  } catch (error) {
    throw renamed(error, ours, theirs);
  }
}

async function answerWhole({ id, reply }: Exchange, all: readonly Events[], failing: AbortController): Promise<void> {
  const head = headOf(id);
  reply.json(
    200,
    toCompletion(
      head,
      await together(
        all.map((events) => Collector.of(events)),
        failing,
      ),
    ),
  );
}

/** Sends nothing before the first text: until then an error is an HTTP status, which clients can retry. */
async function answerStream(
  { id, reply }: Exchange,
  all: readonly Events[],
  failing: AbortController,
  includeUsage: boolean,
): Promise<void> {
  reply.stream(FORMAT);
  const head = headOf(id);
  const choices = await together(
    all.map((events, index) => sendChoice(reply, events, { head, index, includeUsage })),
    failing,
  );
  await reply.write(endOf({ ...head, model: choices[0]?.start.model ?? '' }, choices, includeUsage));
  reply.end();
}

interface ChoiceOptions {
  readonly head: Answer;
  readonly index: number;
  readonly includeUsage: boolean;
}

/** Resolves with the facts of the choice, without its content, when its last chunk is written. */
async function sendChoice(
  reply: Reply,
  events: Events,
  { head, index, includeUsage }: ChoiceOptions,
): Promise<Collector> {
  const facts = new Collector();
  let answer = head;
  let opening = '';
  const send = async (chunk: object): Promise<void> => {
    const text = opening + sseData(chunk);
    opening = '';
    await reply.write(text);
  };
  const sendDelta = async (delta: Delta, logprobs?: readonly TokenLogprobs[]): Promise<void> => {
    await send(toChunk(answer, index, delta, includeUsage, logprobs));
  };
  for await (const event of events) {
    facts.note(event);
    switch (event.type) {
      case 'route':
        break;
      case 'start':
        answer = { ...head, model: event.model };
        opening = sseData(toChunk(answer, index, { role: 'assistant', content: '' }, includeUsage));
        break;
      case 'text':
        await sendDelta({ content: event.text }, event.logprobs);
        break;
      case 'reasoning':
        await sendDelta({ reasoning_content: event.text });
        break;
      case 'tool_call':
        await sendDelta(toToolCallDelta(event));
        break;
      case 'finish':
        await send(toLastChunk(answer, index, facts, includeUsage));
    }
  }
  return facts;
}

/** As Promise.all, but if a choice fails, the others are ended first: none writes after the error. */
async function together(choices: readonly Promise<Collector>[], failing: AbortController): Promise<Collector[]> {
  try {
    return await Promise.all(choices);
  } catch (error) {
    failing.abort(new SvcError('CANCELLED', 'another choice of this request has failed'));
    await Promise.allSettled(choices);
    throw error;
  }
}

function endOf(answer: Answer, choices: readonly Collector[], includeUsage: boolean): string {
  const usage = includeUsage ? toUsageChunk(answer, choices) : null;
  return (usage === null ? '' : sseData(usage)) + SSE_DONE;
}

/** The fields that all chunks of an answer repeat; `model` is known after `start`. */
function headOf(id: string): Answer {
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model: '' };
}
