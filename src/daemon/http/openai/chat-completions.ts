/** `POST /v1/chat/completions` in OpenAI's format: whole, or as a stream that ends with `[DONE]` only if complete. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile, type TokenLogprobs } from '../../../protocol/generate.ts';
import { parseChatCompletion, type ChatCompletionCall } from '../../../protocol/openai/chat-request.ts';
import {
  toChunk,
  toCompletion,
  toLastChunk,
  toToolCallDelta,
  toUsageChunk,
  type Answer,
  type Delta,
} from '../../../protocol/openai/chat-response.ts';
import { SSE_DONE, sseData } from '../../../protocol/streams/sse.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import type { Reply } from '../reply.ts';
import { choicesOf, headOf, STREAM, together, type Choices, type Events } from './choices.ts';

export async function chatCompletions(exchange: Exchange): Promise<void> {
  const call = parseChatCompletion(await readJson(exchange));
  const { request, stream } = call;
  refuseFile(request);
  const answers = choicesOf(exchange, [request], call);
  if (stream) await answerStream(exchange, answers, call);
  else await answerWhole(exchange, answers, call);
}

async function answerWhole(
  { id, reply }: Exchange,
  { all, failing }: Choices,
  call: ChatCompletionCall,
): Promise<void> {
  const answers = all.map((events) => Collector.of(events));
  reply.json(200, toCompletion(headOf('chatcmpl', id), await together(answers, failing), call));
}

/** Sends nothing before the first text or heartbeat: until then an error is an HTTP status, which clients can retry. */
async function answerStream(
  { id, reply }: Exchange,
  { all, failing }: Choices,
  call: ChatCompletionCall,
): Promise<void> {
  reply.stream(STREAM);
  const head = headOf('chatcmpl', id);
  const choices = await together(
    all.map((events, index) => sendChoice(reply, events, { head, index, call })),
    failing,
  );
  await reply.write(endOf({ ...head, model: choices[0]?.start.model ?? '' }, choices, call.includeUsage));
  reply.end();
}

interface ChoiceOptions {
  readonly head: Answer;
  readonly index: number;
  readonly call: ChatCompletionCall;
}

/** Resolves with the facts of the choice, without its content, when its last chunk is written. */
async function sendChoice(reply: Reply, events: Events, { head, index, call }: ChoiceOptions): Promise<Collector> {
  const { includeUsage } = call;
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
        await send(toLastChunk(answer, index, facts, call));
    }
  }
  return facts;
}

function endOf(answer: Answer, choices: readonly Collector[], includeUsage: boolean): string {
  const usage = includeUsage ? toUsageChunk('chat.completion.chunk', answer, choices, choices.length) : null;
  return (usage === null ? '' : sseData(usage)) + SSE_DONE;
}
