/**
 * `POST /v1/completions`, OpenAI's legacy API: whole, or as a stream that ends with `[DONE]` only if complete. All
 * prompts of a request are answered at the same time.
 */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { given } from '../../../protocol/given.ts';
import { toUsageChunk, type Answer } from '../../../protocol/openai/chat-response.ts';
import {
  parseCompletion,
  toLastTextChunk,
  toTextChunk,
  toTextCompletion,
  type CompletionCall,
  type CompletionRequest,
} from '../../../protocol/openai/completions.ts';
import { LegacyLogprobsWriter } from '../../../protocol/openai/legacy-logprobs.ts';
import { SSE_DONE, sseData } from '../../../protocol/streams/sse.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { Reply } from '../reply.ts';
import { choicesOf, headOf, STREAM, together, type Events } from './choices.ts';

export async function completions(exchange: Exchange): Promise<void> {
  const call = parseCompletion(await readJson(exchange));
  for (const request of call.requests) refuseFile(request);
  const echoes = call.echo
    ? await Promise.all(call.requests.map((request) => textOf(exchange, request)))
    : call.requests.map(() => '');
  if (call.stream) await answerStream(exchange, call, echoes);
  else await answerWhole(exchange, call, echoes);
}

/** The prompt as text. */
async function textOf(exchange: Exchange, { raw, ...request }: CompletionRequest): Promise<string> {
  if ('text' in raw) return raw.infill?.prefix ?? raw.text;
  const { model, route, context_length, keep_alive_seconds, timeout_ms } = request;
  const settings = given({ model, route, context_length, keep_alive_seconds, timeout_ms });
  const events = exchange.services.router.detokenize(
    { ...settings, tokens: [...raw.tokens], special: true },
    contextOf(exchange),
  );
  return (await Collector.of(events)).text;
}

async function answerWhole(exchange: Exchange, call: CompletionCall, echoes: readonly string[]): Promise<void> {
  const { id, reply } = exchange;
  const { all, failing } = choicesOf(exchange, call.requests, call);
  const answers = await together(
    all.map((events) => Collector.of(events)),
    failing,
  );
  const choices = answers.map((answer, index) => ({
    answer,
    echo: echoes[Math.floor(index / call.choices)] ?? '',
    logprobs: writerOf(call).next(answer.logprobs),
  }));
  reply.json(200, toTextCompletion(headOf('cmpl', id), choices, call.choices));
}

/** Sends nothing before the first text or heartbeat: until then an error is an HTTP status, which clients can retry. */
async function answerStream(exchange: Exchange, call: CompletionCall, echoes: readonly string[]): Promise<void> {
  const { id, reply } = exchange;
  const { includeUsage } = call;
  const { all, failing } = choicesOf(exchange, call.requests, call);
  reply.stream(STREAM);
  const head = headOf('cmpl', id);
  const answers = await together(
    all.map((events, index) => {
      const echo = echoes[Math.floor(index / call.choices)] ?? '';
      return sendChoice(reply, events, { head, index, includeUsage, echo, logprobs: writerOf(call) });
    }),
    failing,
  );
  const named = { ...head, model: answers[0]?.start.model ?? '' };
  const usage = includeUsage ? toUsageChunk('text_completion', named, answers, call.choices) : null;
  await reply.write((usage === null ? '' : sseData(usage)) + SSE_DONE);
  reply.end();
}

interface ChoiceOptions {
  readonly head: Answer;
  readonly index: number;
  readonly includeUsage: boolean;
  /** Sent with the first text. */
  readonly echo: string;
  readonly logprobs: LegacyLogprobsWriter;
}

/** Resolves with the facts of the choice, without its content, when its last chunk is written. */
async function sendChoice(reply: Reply, events: Events, options: ChoiceOptions): Promise<Collector> {
  const { index, includeUsage, logprobs } = options;
  const facts = new Collector();
  let { head, echo } = options;
  const send = async (text: string, found: ReturnType<LegacyLogprobsWriter['next']>): Promise<void> => {
    const chunk = toTextChunk(head, { index, text: echo + text, logprobs: found }, includeUsage);
    echo = '';
    await reply.write(sseData(chunk));
  };
  for await (const event of events) {
    facts.note(event);
    if (event.type === 'start') head = { ...head, model: event.model };
    else if (event.type === 'text') await send(event.text, logprobs.next(event.logprobs ?? []));
    else if (event.type === 'finish') {
      if (echo !== '') await send('', null);
      await reply.write(sseData(toLastTextChunk(head, index, facts, includeUsage)));
    }
  }
  return facts;
}

function writerOf({ requests }: CompletionCall): LegacyLogprobsWriter {
  return new LegacyLogprobsWriter(requests[0]?.logprobs ?? 0);
}
