/** `POST /infill`, for editors that complete code with llama-server: whole, or as a stream. */
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { toInfillAnswer, toInfillChunk } from '../../../protocol/llama-server/answer.ts';
import { parseInfill } from '../../../protocol/llama-server/infill.ts';
import { sseData } from '../../../protocol/streams/sse.ts';
import { renamed } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import { choicesOf, STREAM, type Events } from '../openai/choices.ts';
import { withLineLimits } from './line-limits.ts';

export async function infill(exchange: Exchange): Promise<void> {
  const call = parseInfill(await readJson(exchange));
  const { request, limits, responseFields, stream } = call;
  refuseFile(request);
  const { all } = choicesOf(exchange, [request], { ...call, choices: 1 });
  const [unlimited] = all as [Events];
  const events = withLineLimits(unlimited, limits, exchange.arrivedAt);
  const { reply } = exchange;
  try {
    if (!stream) {
      const answer = await Collector.of(events);
      reply.json(200, toInfillAnswer(answer, answer.text, responseFields));
      return;
    }
    reply.stream(STREAM);
    const facts = new Collector();
    for await (const event of events) {
      facts.note(event);
      if (event.type === 'text') await reply.write(sseData(toInfillChunk(event.text)));
    }
    await reply.write(sseData(toInfillAnswer(facts, '', responseFields)));
    reply.end();
  } catch (error) {
    throw renamed(error, 'suffix', 'input_suffix');
  }
}
