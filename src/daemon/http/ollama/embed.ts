/** `POST /api/embed` and `POST /api/embeddings`. Written vector by vector, as for OpenAI's clients. */
import { setImmediate as turn } from 'node:timers/promises';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile, type FinishEvent } from '../../../protocol/generate.ts';
import { embedFigures } from '../../../protocol/ollama/answer.ts';
import { parseOllamaEmbed, parseOllamaEmbeddings, type OllamaEmbedCall } from '../../../protocol/ollama/embed.ts';
import { inOllamasWords } from '../../../protocol/ollama/error.ts';
import { renamed } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import { FORMAT } from '../openai/embeddings.ts';
import { loadOrUnload, routed } from './residence.ts';

export async function ollamaEmbed(exchange: Exchange): Promise<void> {
  const call = parseOllamaEmbed(await readJson(exchange));
  const { reply } = exchange;
  const head = { model: call.model };
  const finishes: FinishEvent[] = [];
  for await (const { vectors, finish } of answersTo(exchange, call)) {
    if (finishes.length === 0) {
      reply.stream(FORMAT);
      await reply.write(`${JSON.stringify(head).slice(0, -1)},"embeddings":[`);
    }
    for (const [index, vector] of vectors.entries()) {
      const isFirst = index === 0 && finishes.length === 0;
      await reply.write(`${isFirst ? '' : ','}${JSON.stringify(Array.from(vector))}`);
      await turn();
    }
    finishes.push(finish);
  }
  if (finishes.length === 0) {
    reply.json(200, { ...head, embeddings: [] });
    return;
  }
  await reply.write(`],${JSON.stringify(embedFigures(finishes)).slice(1)}\n`);
  reply.end();
}

export async function ollamaEmbeddings(exchange: Exchange): Promise<void> {
  const call = parseOllamaEmbeddings(await readJson(exchange));
  try {
    let embedding: number[] = [];
    for await (const { vectors } of answersTo(exchange, call)) embedding = Array.from(vectors[0] ?? []);
    exchange.reply.json(200, { embedding });
  } catch (error) {
    throw renamed(error, 'input[0]', 'prompt');
  }
}

/** Yields the answer to each request, one after the other. Without one it loads or unloads the model. */
async function* answersTo(exchange: Exchange, call: OllamaEmbedCall): AsyncGenerator<Collector, void, undefined> {
  const { services } = exchange;
  const { model, requests, keepAliveSeconds } = call;
  if (requests.length === 0) {
    await loadOrUnload(exchange, model, keepAliveSeconds);
    return;
  }
  const named = await routed(exchange, model);
  for (const [index, request] of requests.entries()) {
    const whole = { ...request, ...named };
    refuseFile(whole);
    // Each has its own time limit and figures.
    const context = index === 0 ? contextOf(exchange) : { ...contextOf(exchange), arrivedAt: performance.now() };
    try {
      yield await Collector.of(services.router.embed(whole, context));
    } catch (error) {
      throw inOllamasWords(error, model);
    }
  }
}
