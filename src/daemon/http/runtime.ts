/**
 * svc's own API, `/v1/runtime/*`: our requests and events as they are, without another vendor's format. svc's client
 * (src/client) speaks it on TCP and the control socket alike.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { parseEmbedRequest, type EmbedEvent } from '../../protocol/embed.ts';
import { GenerateRequestSchema, refuseFile, type RouteEvent } from '../../protocol/generate.ts';
import { encodeVector } from '../../protocol/streams/ndjson.ts';
import { parseRerankRequest } from '../../protocol/rerank.ts';
import type { EmbedLine } from '../../protocol/routes.ts';
import { parse, presentFields } from '../../protocol/validate.ts';
import { modelsFor } from '../withhold.ts';
import { readJson } from './body.ts';
import { streamLines } from './event-lines.ts';
import { contextOf, type Exchange } from './exchange.ts';

export async function models({ services, reply, caller }: Exchange): Promise<void> {
  reply.json(200, { models: modelsFor(await services.models(), caller) });
}

export async function generate(exchange: Exchange): Promise<void> {
  const request = await read(exchange, (fields) => parse(GenerateRequestSchema, fields));
  await streamLines(exchange, exchange.services.router.route(request, contextOf(exchange)));
}

export async function embed(exchange: Exchange): Promise<void> {
  const request = await read(exchange, parseEmbedRequest);
  await streamLines(exchange, vectorLines(exchange.services.router.embed(request, contextOf(exchange))));
}

export async function rerank(exchange: Exchange): Promise<void> {
  const request = await read(exchange, parseRerankRequest);
  await streamLines(exchange, exchange.services.router.rerank(request, contextOf(exchange)));
}

/** Only a user of this machine may name a file as the model. */
async function read<Request extends { readonly model?: string }>(
  exchange: Exchange,
  parseFields: (fields: Readonly<Record<string, unknown>>) => Request,
): Promise<Request> {
  const request = parseFields(presentFields(await readJson(exchange)));
  if (exchange.caller?.kind !== 'control') refuseFile(request);
  return request;
}

/** One vector per line: two thousand at once would block all other requests. */
async function* vectorLines(events: AsyncIterable<RouteEvent | EmbedEvent>): AsyncGenerator<EmbedLine> {
  for await (const event of events) {
    if (event.type !== 'vectors') {
      yield event;
      continue;
    }
    for (const vector of event.vectors) {
      yield { type: 'vectors', vectors: [encodeVector(vector)] };
      await turn();
    }
  }
}
