/**
 * Managing the daemon: on the control socket for the CLI, and for administrators over TCP, among them the console. Over
 * TCP a model is one that the caller may use, never a file, and the hub is the daemon's own.
 */
import * as v from 'valibot';
import type { CatalogueModel } from '../../protocol/console.ts';
import { GenerateRequestSchema, LIMITS } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import { invalid, parse, presentFields } from '../../protocol/validate.ts';
import { readJson } from './body.ts';
import { streamLines } from './event-lines.ts';
import type { Exchange } from './exchange.ts';
import { recordOf } from './ollama/residence.ts';

const ModelSchema = v.object({ model: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength)) });
const LoadSchema = v.object({
  ...ModelSchema.entries,
  context_length: GenerateRequestSchema.entries.context_length,
  keep_alive_seconds: GenerateRequestSchema.entries.keep_alive_seconds,
  pin: v.exactOptional(v.boolean()),
  briefly: v.exactOptional(v.boolean()),
});
const PullSchema = v.object({
  ...ModelSchema.entries,
  sha256: v.optional(v.pipe(v.string(), v.maxLength(100))),
  hub: v.optional(
    v.object({
      endpoint: v.pipe(v.string(), v.maxLength(2048)),
      token: v.nullable(v.pipe(v.string(), v.maxLength(2048))),
      is_offline: v.boolean(),
    }),
  ),
});

const QuantizeSchema = v.object({
  ...ModelSchema.entries,
  type: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength)),
  name: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength))),
  allow_requantize: v.exactOptional(v.boolean()),
});
/** Models of an import, and characters of their sources. */
const MOST_IMPORTED = 1000;
const LONGEST_SOURCE = 4096;
const ImportSchema = v.object({
  models: v.exactOptional(
    v.pipe(v.array(v.pipe(v.string(), v.maxLength(LONGEST_SOURCE))), v.minLength(1), v.maxLength(MOST_IMPORTED)),
  ),
});

export function status({ services, reply }: Exchange): void {
  reply.json(200, services.status());
}

export function providers({ services, reply }: Exchange): void {
  reply.json(200, { providers: services.providers() });
}

export async function load(exchange: Exchange): Promise<void> {
  const { model, ...wishes } = parse(LoadSchema, presentFields(await readJson(exchange)));
  await streamLines(exchange, exchange.services.load(await idOf(exchange, model), exchange.signal, wishes));
}

export async function unload(exchange: Exchange): Promise<void> {
  const { model } = parse(ModelSchema, presentFields(await readJson(exchange)));
  await exchange.services.unload(await idOf(exchange, model));
  exchange.reply.json(200, {});
}

export async function pull(exchange: Exchange): Promise<void> {
  const { model, sha256, hub } = parse(PullSchema, presentFields(await readJson(exchange)));
  if (hub !== undefined && !isLocalUser(exchange)) throw invalid('hub', 'can be chosen on the control socket only');
  const request = { model, ...given({ sha256, hub }) };
  await streamLines(exchange, exchange.services.pull(request, exchange.signal, 'svc'));
}

export async function quantize(exchange: Exchange): Promise<void> {
  const { model, ...wishes } = parse(QuantizeSchema, presentFields(await readJson(exchange)));
  const request = { model: await installedOf(exchange, model), ...wishes };
  await streamLines(exchange, exchange.services.work.quantize(request, exchange.signal));
}

export async function verify(exchange: Exchange): Promise<void> {
  const { model } = parse(ModelSchema, presentFields(await readJson(exchange)));
  const id = await installedOf(exchange, model);
  await streamLines(exchange, exchange.services.work.verify(id, exchange.signal));
}

export async function importModels(exchange: Exchange): Promise<void> {
  const wishes = parse(ImportSchema, presentFields(await readJson(exchange)));
  await streamLines(exchange, exchange.services.work.import(wishes, exchange.signal));
}

export async function remove(exchange: Exchange): Promise<void> {
  const { model } = parse(ModelSchema, presentFields(await readJson(exchange)));
  await exchange.services.shelf.remove(await recordOf(exchange, model));
  exchange.reply.json(200, {});
}

export async function setDefault(exchange: Exchange): Promise<void> {
  const { model } = parse(ModelSchema, presentFields(await readJson(exchange)));
  await exchange.services.shelf.setDefault(await recordOf(exchange, model));
  exchange.reply.json(200, {});
}

export async function catalogue({ services, reply }: Exchange): Promise<void> {
  const models: readonly CatalogueModel[] = await services.shelf.catalogue();
  reply.json(200, { models });
}

/** The name for the engines: on the control socket as typed, which may be a file. Throws MODEL_NOT_FOUND. */
async function idOf(exchange: Exchange, model: string): Promise<string> {
  return isLocalUser(exchange) ? model : (await recordOf(exchange, model)).id;
}

/** Id of the installed model, also of one that the config gives a further name. Throws MODEL_NOT_FOUND. */
async function installedOf(exchange: Exchange, model: string): Promise<string> {
  const { id, from = id } = await recordOf(exchange, model);
  return from;
}

function isLocalUser({ caller }: Exchange): boolean {
  return caller?.kind === 'control';
}
