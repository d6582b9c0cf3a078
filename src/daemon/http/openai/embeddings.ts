/** `POST /v1/embeddings` in OpenAI's format. */
import { setImmediate as turn } from 'node:timers/promises';
import { Collector } from '../../../protocol/collect.ts';
import { refuseFile } from '../../../protocol/generate.ts';
import {
  EMBEDDINGS_TAIL,
  embeddingsHead,
  embeddingsItem,
  parseEmbeddings,
} from '../../../protocol/openai/embeddings.ts';
import { readJson } from '../body.ts';
import { contextOf, type Exchange } from '../exchange.ts';
import type { StreamFormat } from '../reply.ts';

export const FORMAT: StreamFormat = {
  contentType: 'application/json; charset=utf-8',
  heartbeat: null,
  // After an error the JSON ends early, which every client notices.
  encodeError: () => '',
};

/**
 * The answer is sent when it is complete, since the usage comes at its end. It is written vector by vector: two
 * thousand vectors are fifty megabytes of digits, and writing them at once would block all other requests.
 */
export async function embeddings(exchange: Exchange): Promise<void> {
  const { request, encodingFormat } = parseEmbeddings(await readJson(exchange));
  refuseFile(request);
  const { reply, services } = exchange;
  const { start, finish, vectors } = await Collector.of(services.router.embed(request, contextOf(exchange)));
  reply.stream(FORMAT);
  await reply.write(embeddingsHead(start.model, finish));
  for (const [index, vector] of vectors.entries()) {
    await reply.write(embeddingsItem(vector, index, encodingFormat));
    await turn();
  }
  await reply.write(EMBEDDINGS_TAIL);
  reply.end();
}
