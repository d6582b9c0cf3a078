/** Several answers to one request, for OpenAI's chat completions and its legacy completions. */
import { Collector } from '../../../protocol/collect.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { AnswerEvent, GenerateRequest } from '../../../protocol/generate.ts';
import type { ChatCompletionCall } from '../../../protocol/openai/chat-request.ts';
import { toChunk, toCompletion, toUsageChunk, type Head } from '../../../protocol/openai/completion-response.ts';
import { toOpenAiError } from '../../../protocol/openai/error.ts';
import { SSE_CONTENT_TYPE, SSE_DONE, SSE_HEARTBEAT, sseData } from '../../../protocol/streams/sse.ts';
import { withoutContent } from '../../../protocol/streams/warm-up.ts';
import { renamedTo } from '../../../protocol/validate.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { Reply, StreamFormat } from '../reply.ts';
import { withErrors } from '../with-errors.ts';

export type Events = AsyncIterable<AnswerEvent>;

export const STREAM: StreamFormat = {
  contentType: SSE_CONTENT_TYPE,
  heartbeat: SSE_HEARTBEAT,
  encodeError: (error, id) => sseData(toOpenAiError(error, id)),
};

/** How an API writes answers. The content of a choice is all its fields but `index` and `finish_reason`. */
export interface AnswerForm {
  readonly idPrefix: string;
  readonly whole: Head['object'];
  readonly chunk: Head['object'];
  readonly contentOf: (answer: Collector, index: number) => object;
  /**
   * Returns a function that converts each event of a choice, in order, to the contents of its chunks. The last chunk of
   * the last event gets the finish reason.
   */
  readonly contentsOf: (index: number) => (event: AnswerEvent) => readonly object[];
  /** Further fields of the whole response, and of the last chunk of a choice. */
  readonly further: object;
}

type AnswerCall = Pick<ChatCompletionCall, 'choices' | 'isWarmUp' | 'names' | 'stream' | 'includeUsage'>;

/** Answers each request `call.choices` times: whole, or as a stream that ends with `[DONE]` only if complete. */
export async function answerAll(
  exchange: Exchange,
  requests: readonly GenerateRequest[],
  call: AnswerCall,
  form: AnswerForm,
): Promise<void> {
  const choices = choicesOf(exchange, requests, call);
  const head = {
    object: call.stream ? form.chunk : form.whole,
    id: `${form.idPrefix}-${exchange.id}`,
    created: Math.floor(Date.now() / 1000),
    // Known after `start`.
    model: '',
  };
  if (call.stream) await answerStream(exchange.reply, choices, { head, call, form });
  else {
    const answers = await together(choices, (events) => Collector.of(events));
    const completion = toCompletion(head, answers, call.choices, form.contentOf);
    exchange.reply.json(200, { ...completion, ...form.further });
  }
}

interface StreamOptions {
  readonly head: Head;
  readonly call: AnswerCall;
  readonly form: AnswerForm;
}

/** Sends nothing before the first text or heartbeat: until then an error is an HTTP status, which clients can retry. */
async function answerStream(reply: Reply, choices: Choices, options: StreamOptions): Promise<void> {
  const { head, call } = options;
  reply.stream(STREAM);
  const answers = await together(choices, (events, index) => sendChoice(reply, events, index, options));
  const named = { ...head, model: answers[0]?.start.model ?? '' };
  const usage = call.includeUsage ? toUsageChunk(named, answers, call.choices) : null;
  await reply.write((usage === null ? '' : sseData(usage)) + SSE_DONE);
  reply.end();
}

/** Resolves with the facts of the choice, without its content, when its last chunk is written. */
async function sendChoice(
  reply: Reply,
  events: Events,
  index: number,
  { head, call, form }: StreamOptions,
): Promise<Collector> {
  const facts = new Collector();
  const contentsOf = form.contentsOf(index);
  for await (const event of events) {
    facts.note(event);
    const contents = contentsOf(event);
    const chunks = contents.map((content, place) => {
      const named = { ...head, model: facts.start.model };
      const isLast = event.type === 'finish' && place === contents.length - 1;
      const chunk = toChunk(named, { index, content }, call.includeUsage, isLast ? facts : undefined);
      return sseData(isLast ? { ...chunk, ...form.further } : chunk);
    });
    if (chunks.length > 0) await reply.write(chunks.join(''));
  }
  return facts;
}

interface Choices {
  /** Those of the first request first. */
  readonly all: readonly Events[];
  /** Ends all of them. */
  readonly failing: AbortController;
}

type ChoicesCall = Pick<ChatCompletionCall, 'choices' | 'isWarmUp' | 'names'>;

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
async function together(
  { all, failing }: Choices,
  answer: (events: Events, index: number) => Promise<Collector>,
): Promise<Collector[]> {
  const answers = all.map(answer);
  try {
    return await Promise.all(answers);
  } catch (error) {
    failing.abort(new SvcError('CANCELLED', 'another choice of this request has failed'));
    await Promise.allSettled(answers);
    throw error;
  }
}
