/** `POST /api/chat` and `POST /api/generate`: whole, or as lines of which only a complete answer's last has `done`. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile, type AnswerEvent } from '../../../protocol/generate.ts';
import { ndjsonLine } from '../../../protocol/streams/ndjson.ts';
import {
  toCalls,
  toLastLine,
  toLine,
  toLoadLine,
  wholeOf,
  type OllamaApi,
  type OllamaPiece,
} from '../../../protocol/ollama/answer.ts';
import { parseOllamaChat } from '../../../protocol/ollama/chat-request.ts';
import { toContext } from '../../../protocol/ollama/context.ts';
import { inOllamasWords } from '../../../protocol/ollama/error.ts';
import { parseOllamaGenerate } from '../../../protocol/ollama/generate-request.ts';
import type { OllamaCall } from '../../../protocol/ollama/request.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { Reply } from '../reply.ts';
import { withErrors } from '../with-errors.ts';
import { LINES, sendOne } from './lines.ts';
import { loadOrUnload, routed } from './residence.ts';

type Events = AsyncIterable<AnswerEvent>;

export async function ollamaChat(exchange: Exchange): Promise<void> {
  await answer(exchange, 'chat', parseOllamaChat(await readJson(exchange)));
}

export async function ollamaGenerate(exchange: Exchange): Promise<void> {
  await answer(exchange, 'generate', parseOllamaGenerate(await readJson(exchange)));
}

async function answer(exchange: Exchange, api: OllamaApi, call: OllamaCall): Promise<void> {
  const { services, reply, arrivedAt } = exchange;
  const { model, request, stream, keepAliveSeconds } = call;
  if (request === null) {
    const done = await loadOrUnload(exchange, model, keepAliveSeconds);
    return sendOne(reply, stream, toLoadLine(api, model, done, performance.now() - arrivedAt));
  }
  const whole = { ...request, ...(await routed(exchange, model)) };
  refuseFile(whole);
  const events = withErrors(services.router.route(whole, contextOf(exchange)), (error) => inOllamasWords(error, model));
  if (stream) return answerStream(reply, api, call, events);
  const collected = await Collector.of(events);
  reply.json(200, toLastLine(api, model, wholeOf(collected), collected.finish, contextAfter(call, collected)));
}

/**
 * Times `heartbeatMs`: 60 s. Clients on Node give up after 300 s without data; until the first line an error is an HTTP
 * status, which clients show better.
 */
const HEARTBEAT_FACTOR = 6;

/** Sends nothing before the first text or heartbeat: until then an error is an HTTP status. */
async function answerStream(reply: Reply, api: OllamaApi, call: OllamaCall, events: Events): Promise<void> {
  const { model } = call;
  const heartbeat = (): string => ndjsonLine(toLine(api, model, {}));
  reply.stream({ ...LINES, heartbeat, heartbeatFactor: HEARTBEAT_FACTOR });
  const facts = new Collector();
  const send = async (piece: OllamaPiece): Promise<void> => {
    await reply.write(ndjsonLine(toLine(api, model, piece)));
  };
  for await (const event of events) {
    switch (event.type) {
      case 'text':
        facts.text += event.text;
        await send({ text: event.text, logprobs: event.logprobs ?? [] });
        break;
      case 'reasoning':
        await send({ thinking: event.text });
        break;
      case 'tool_call':
        facts.add(event);
        break;
      default:
        facts.note(event);
    }
  }
  // In this API a call is whole.
  const calls = toCalls(facts);
  if (calls.length > 0) await send({ calls });
  await reply.write(ndjsonLine(toLastLine(api, model, {}, facts.finish, contextAfter(call, facts))));
  reply.end();
}

function contextAfter({ turns }: OllamaCall, { text }: Collector): number[] | undefined {
  return turns === null ? undefined : toContext(turns, text);
}
