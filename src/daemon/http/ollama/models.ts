/** The routes of Ollama's API about the server and its models. */
import { given } from '../../../protocol/given.ts';
import {
  parseCopy,
  parseCreate,
  parseModelName,
  toRunning,
  toTags,
  toVersion,
} from '../../../protocol/ollama/models.ts';
import { describedByName, toShown } from '../../../protocol/ollama/show.ts';
import { ndjsonLine } from '../../../protocol/streams/ndjson.ts';
import { modelsFor } from '../../withhold.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';
import { LINES } from './lines.ts';
import { listedModels } from '../openai/models.ts';
import { listedOf, recordOf } from './residence.ts';

export function ollamaVersion({ services, reply }: Exchange): void {
  reply.json(200, toVersion(services.status().version));
}

export async function ollamaTags(exchange: Exchange): Promise<void> {
  exchange.reply.json(200, toTags(await listedModels(exchange)));
}

export async function ollamaPs({ services, reply, caller }: Exchange): Promise<void> {
  reply.json(200, toRunning(modelsFor(await services.models(), caller), Date.now()));
}

export async function ollamaShow(exchange: Exchange): Promise<void> {
  const { services, reply } = exchange;
  const typed = parseModelName(await readJson(exchange));
  const model = await listedOf(exchange, typed);
  const { record } = model;
  const description = record === null ? describedByName(model) : await services.shelf.describe(record);
  reply.json(200, toShown(typed, model, description));
}

export async function ollamaCopy(exchange: Exchange): Promise<void> {
  const { services, reply } = exchange;
  const { source, destination } = parseCopy(await readJson(exchange));
  await services.shelf.copy(await recordOf(exchange, source), destination);
  reply.text(200, '');
}

export async function ollamaDelete(exchange: Exchange): Promise<void> {
  const { services, reply } = exchange;
  await services.shelf.remove(await recordOf(exchange, parseModelName(await readJson(exchange))));
  reply.text(200, '');
}

export async function ollamaCreate(exchange: Exchange): Promise<void> {
  const { services, reply } = exchange;
  const { model, from, system, parameters, stream } = parseCreate(await readJson(exchange));
  const settings = { parameters, ...given({ system: system === '' ? undefined : system }) };
  const skipped = await services.shelf.create(model, await recordOf(exchange, from), settings);
  if (!stream) {
    reply.json(200, { status: 'success' });
    return;
  }
  reply.stream(LINES);
  for (const status of [...skipped, 'writing manifest', 'success']) await reply.write(ndjsonLine({ status }));
  reply.end();
}
