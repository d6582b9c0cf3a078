/** Several answers of one request, for OpenAI's chat completions and its legacy completions. */
import type { Collector } from '../../../protocol/collect.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { GenerateEvent, GenerateRequest, RouteEvent } from '../../../protocol/generate.ts';
import { toOpenAiError, type Answer } from '../../../protocol/openai/chat-response.ts';
import type { ChatCompletionCall } from '../../../protocol/openai/chat-request.ts';
import { SSE_CONTENT_TYPE, SSE_HEARTBEAT, sseData } from '../../../protocol/streams/sse.ts';
import { withoutContent } from '../../../protocol/streams/warm-up.ts';
import { renamedTo } from '../../../protocol/validate.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { StreamFormat } from '../reply.ts';
import { withErrors } from '../with-errors.ts';

export type Events = AsyncIterable<RouteEvent | GenerateEvent>;

export const STREAM: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: SSE_HEARTBEAT,
  encodeError: (error, id) => sseData(toOpenAiError(error, id)),
};

/** The fields that all chunks of an answer repeat; `model` is known after `start`. */
export function headOf(prefix: 'chatcmpl' | 'cmpl', id: string): Answer {
  return { id: `${prefix}-${id}`, created: Math.floor(Date.now() / 1000), model: '' };
}

export interface Choices {
  /** Those of the first request first. */
  readonly all: readonly Events[];
  /** Ends all of them. */
  readonly failing: AbortController;
}

export type ChoicesCall = Pick<ChatCompletionCall, 'choices' | 'isWarmUp' | 'names'>;

/** Answers to each request. On a local model they share the computed prompt. */
export function choicesOf(
  exchange: Exchange,
  requests: readonly GenerateRequest[],
  { choices: count, isWarmUp, names }: ChoicesCall,
): Choices {
  const failing = new AbortController();
  const context = contextOf(exchange);
  const isOne = requests.length * count === 1;
  const signal = isOne ? context.signal : AbortSignal.any([context.signal, failing.signal]);
  const ofEach = { ...context, signal, ...(count > 1 ? { isChoice: true } : {}) };
  const all = requests.flatMap((request) =>
    Array.from({ length: count }, (_, index) => {
      const answer = exchange.services.router.route(ofChoice(request, index), ofEach);
      const events = isWarmUp ? withoutContent(answer) : answer;
      return names.length === 0 ? events : withErrors(events, (error) => renamedTo(error, names));
    }),
  );
  return { all, failing };
}

/** As llama-server: with a seed, the choices have it and those after it. */
function ofChoice(request: GenerateRequest, index: number): GenerateRequest {
  const { sampling } = request;
  if (index === 0 || sampling.seed === undefined) return request;
  return { ...request, sampling: { ...sampling, seed: (sampling.seed + index) % 2 ** 32 } };
}

/** As Promise.all, but if a choice fails, the others are ended first: none writes after the error. */
export async function together(choices: readonly Promise<Collector>[], failing: AbortController): Promise<Collector[]> {
  try {
    return await Promise.all(choices);
  } catch (error) {
    failing.abort(new SvcError('CANCELLED', 'another choice of this request has failed'));
    await Promise.allSettled(choices);
    throw error;
  }
}
