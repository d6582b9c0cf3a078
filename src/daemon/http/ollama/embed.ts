/** `POST /api/embed` and `POST /api/embeddings`. Written vector by vector, as for OpenAI's clients. */
import { setImmediate as turn } from 'node:timers/promises';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import { embedFigures } from '../../../protocol/ollama/answer.ts';
import { parseOllamaEmbed, parseOllamaEmbeddings, type OllamaEmbedCall } from '../../../protocol/ollama/embed.ts';
import { inOllamasWords } from '../../../protocol/ollama/error.ts';
import { renamed } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { StreamFormat } from '../reply.ts';
import { loadOrUnload, routed } from './residence.ts';

const FORMAT: StreamFormat = {
  contentType: 'application/json; charset=utf-8',
  heartbeat: null,
  // After an error the JSON ends early, which every client notices.
  encodeError: () => '',
};

export async function ollamaEmbed(exchange: Exchange): Promise<void> {
  const call = parseOllamaEmbed(await readJson(exchange));
  const { reply } = exchange;
  const answer = await vectorsOf(exchange, call);
  const head = { model: call.model };
  if (answer === null) {
    reply.json(200, { ...head, embeddings: [] });
    return;
  }
  reply.stream(FORMAT);
  await reply.write(`${JSON.stringify(head).slice(0, -1)},"embeddings":[`);
  for (const [index, vector] of answer.vectors.entries()) {
    await reply.write(`${index === 0 ? '' : ','}${JSON.stringify(Array.from(vector))}`);
    await turn();
  }
  await reply.write(`],${JSON.stringify(embedFigures(answer.finish)).slice(1)}\n`);
  reply.end();
}

export async function ollamaEmbeddings(exchange: Exchange): Promise<void> {
  const call = parseOllamaEmbeddings(await readJson(exchange));
  try {
    const [vector = []] = (await vectorsOf(exchange, call))?.vectors ?? [];
    exchange.reply.json(200, { embedding: Array.from(vector) });
  } catch (error) {
    throw renamed(error, 'input[0]', 'prompt');
  }
}

/** null: no text was given, and the model was loaded or unloaded instead. */
async function vectorsOf(exchange: Exchange, call: OllamaEmbedCall): Promise<Collector | null> {
  const { services } = exchange;
  const { model, request, keepAliveSeconds } = call;
  if (request === null) {
    await loadOrUnload(exchange, model, keepAliveSeconds);
    return null;
  }
  const whole = { ...request, ...(await routed(exchange, model)) };
  refuseFile(whole);
  try {
    return await Collector.of(services.router.embed(whole, contextOf(exchange)));
  } catch (error) {
    throw inOllamasWords(error, model);
  }
}
