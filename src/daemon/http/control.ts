/** Routes of the control socket only: the daemon's own commands, for the CLI. */
import * as v from 'valibot';
import { DAY_MS, LIMITS } from '../../protocol/limits.ts';
import type { ProviderTestEvent, ProviderTestStep } from '../../protocol/routes.ts';
import { parse } from '../../protocol/validate.ts';
import { readJson } from './body.ts';
import { streamLines } from './event-lines.ts';
import type { Exchange } from './exchange.ts';

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
const StopSchema = v.object({
  drain_timeout_ms: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(DAY_MS)),
});

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

export async function providerModels(exchange: Exchange): Promise<void> {
  const { provider } = parse(ProviderSchema, await readJson(exchange));
  exchange.reply.json(200, { models: await exchange.services.cloud.models(provider, exchange.signal) });
}

export async function testProvider(exchange: Exchange): Promise<void> {
  const { provider } = parse(ProviderSchema, await readJson(exchange));
  await streamLines(exchange, testLines(exchange.services.cloud.test(provider, exchange.signal)));
}

async function* testLines(steps: AsyncIterable<ProviderTestStep>): AsyncGenerator<ProviderTestEvent> {
  for await (const step of steps) yield { type: 'step', ...step };
  yield { type: 'tested' };
}

export async function lendKey(exchange: Exchange): Promise<void> {
  const { provider, key } = parse(LentKeySchema, await readJson(exchange));
  exchange.services.cloud.lend(provider, key);
  exchange.reply.json(200, {});
}
