/** Routes of the control socket only: the daemon's own commands, for the CLI. */
import * as v from 'valibot';
import { GenerateRequestSchema, LIMITS } from '../../protocol/generate.ts';
import { given } from '../../protocol/given.ts';
import type { ProviderTestEvent, ProviderTestStep } from '../../protocol/routes.ts';
import { parse } from '../../protocol/validate.ts';
import { readJson } from './body.ts';
import { streamLines } from './event-lines.ts';
import type { Exchange } from './exchange.ts';

const ModelSchema = v.object({ model: v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength)) });
const LoadSchema = v.object({
  ...ModelSchema.entries,
  context_length: GenerateRequestSchema.entries.context_length,
  keep_alive_seconds: GenerateRequestSchema.entries.keep_alive_seconds,
  pin: v.exactOptional(v.boolean()),
  briefly: v.exactOptional(v.boolean()),
});
const ProviderSchema = v.object({ provider: v.pipe(v.string(), v.minLength(1), v.maxLength(64)) });
const LentKeySchema = v.object({
  ...ProviderSchema.entries,
  // Validation errors mention only the limits, never the key.
  key: v.pipe(
    v.string(),
    v.minLength(1),
    v.maxLength(LIMITS.providerKeyLength),
    v.check((key) => !/[^\x21-\x7e]/.test(key)),
  ),
});
const DrainSchema = v.object({ drain: v.boolean() });
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
const StopSchema = v.object({
  drain_timeout_ms: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(86_400_000)),
});

export function status({ services, reply }: Exchange): void {
  reply.json(200, services.status());
}

export async function stop(exchange: Exchange): Promise<void> {
  const request = parse(StopSchema, await readJson(exchange));
  exchange.services.stop(request.drain_timeout_ms);
  exchange.reply.json(202, {});
}

export async function drain(exchange: Exchange): Promise<void> {
  const request = parse(DrainSchema, await readJson(exchange));
  exchange.reply.json(200, exchange.services.drain(request.drain));
}

export function reload({ services, reply }: Exchange): void {
  reply.json(200, services.reload());
}

export async function load(exchange: Exchange): Promise<void> {
  const { model, ...wishes } = parse(LoadSchema, await readJson(exchange));
  await streamLines(exchange, exchange.services.load(model, exchange.signal, wishes));
}

export async function pull(exchange: Exchange): Promise<void> {
  const { model, sha256, hub } = parse(PullSchema, await readJson(exchange));
  const request = { model, ...given({ sha256, hub }) };
  await streamLines(exchange, exchange.services.pull(request, exchange.signal, 'svc'));
}

export async function unload(exchange: Exchange): Promise<void> {
  const { model } = parse(ModelSchema, await readJson(exchange));
  await exchange.services.unload(model);
  exchange.reply.json(200, {});
}

export function providers({ services, reply }: Exchange): void {
  reply.json(200, { providers: services.providers() });
}

export async function providerModels(exchange: Exchange): Promise<void> {
  const { provider } = parse(ProviderSchema, await readJson(exchange));
  exchange.reply.json(200, { models: await exchange.services.providerModels(provider, exchange.signal) });
}

export async function testProvider(exchange: Exchange): Promise<void> {
  const { provider } = parse(ProviderSchema, await readJson(exchange));
  await streamLines(exchange, testLines(exchange.services.testProvider(provider, exchange.signal)));
}

async function* testLines(steps: AsyncIterable<ProviderTestStep>): AsyncGenerator<ProviderTestEvent> {
  for await (const step of steps) yield { type: 'step', ...step };
  yield { type: 'tested' };
}

export async function lendKey(exchange: Exchange): Promise<void> {
  const { provider, key } = parse(LentKeySchema, await readJson(exchange));
  exchange.services.lendKey(provider, key);
  exchange.reply.json(200, {});
}
