/** `POST /completion` and `POST /infill`, for clients of llama-server and its editors: whole, or as a stream. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { toAnswer, toChunk } from '../../../protocol/llama-server/answer.ts';
import type { LlamaCall } from '../../../protocol/llama-server/call.ts';
import { parseLlamaCompletion } from '../../../protocol/llama-server/completion.ts';
import { parseInfill } from '../../../protocol/llama-server/infill.ts';
import { sseData } from '../../../protocol/streams/sse.ts';
import { renamed } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import { choicesOf, STREAM, type Events } from '../openai/choices.ts';
import { withLineLimits } from './line-limits.ts';

export async function llamaCompletion(exchange: Exchange): Promise<void> {
  await answer(exchange, parseLlamaCompletion(await readJson(exchange)));
}

export async function infill(exchange: Exchange): Promise<void> {
  const call = parseInfill(await readJson(exchange));
  try {
    await answer(exchange, call);
  } catch (error) {
    throw renamed(error, 'suffix', 'input_suffix');
  }
}

async function answer(exchange: Exchange, call: LlamaCall): Promise<void> {
  const { request, limits, responseFields, stream } = call;
  refuseFile(request);
  const { all } = choicesOf(exchange, [request], { ...call, choices: 1 });
  const [unlimited] = all as [Events];
  const events = withLineLimits(unlimited, limits, exchange.arrivedAt);
  const { reply } = exchange;
  if (!stream) {
    const whole = await Collector.of(events);
    reply.json(200, toAnswer(whole, whole.text, responseFields));
    return;
  }
  reply.stream(STREAM);
  const facts = new Collector();
  for await (const event of events) {
    facts.note(event);
    if (event.type === 'text') await reply.write(sseData(toChunk(event.text)));
  }
  await reply.write(sseData(toAnswer(facts, '', responseFields)));
  reply.end();
}
