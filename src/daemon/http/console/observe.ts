/**
 * What the daemon does and did, for the console: live samples, the log, `svc doctor`, usage; and cancelling requests.
 */
import * as v from 'valibot';
import { SvcError } from '../../../protocol/errors.ts';
import { given } from '../../../protocol/given.ts';
import { LOG_LEVELS } from '../../../protocol/logs.ts';
import { parse, presentFields } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import { EVENT_LINES, streamLines } from '../event-lines.ts';
import { streamOfGet, type Exchange } from '../exchange.ts';

/** A whole number in a query. */
function count(least: number, most: number) {
  return v.pipe(v.string(), v.regex(/^\d{1,9}$/), v.transform(Number), v.minValue(least), v.maxValue(most));
}

const LiveSchema = v.object({
  interval_ms: v.exactOptional(count(100, 60_000), '1000'),
  count: v.exactOptional(count(1, 1_000_000)),
});
const LogSchema = v.object({
  tail: v.exactOptional(count(0, 10_000), '500'),
  follow: v.exactOptional(v.picklist(['0', '1']), '0'),
  request: v.exactOptional(v.pipe(v.string(), v.minLength(1), v.maxLength(64))),
  level: v.exactOptional(v.picklist(LOG_LEVELS)),
});
const UsageSchema = v.object({
  days: v.exactOptional(count(1, 3660), '30'),
  by: v.exactOptional(v.literal('key')),
});
const CancelSchema = v.object({ id: v.pipe(v.string(), v.minLength(1), v.maxLength(128)) });

export async function live(exchange: Exchange): Promise<void> {
  const { interval_ms, count: samples } = parse(LiveSchema, Object.fromEntries(exchange.query));
  const options = { intervalMs: interval_ms, ...given({ count: samples }) };
  await streamEvents(exchange, () => exchange.services.console.live(options, exchange.signal));
}

export async function logs(exchange: Exchange): Promise<void> {
  const { follow, ...query } = parse(LogSchema, Object.fromEntries(exchange.query));
  const whole = { ...query, follow: follow === '1' };
  await streamEvents(exchange, () => exchange.services.console.logs(whole, exchange.signal));
}

export async function doctor({ services, reply }: Exchange): Promise<void> {
  reply.json(200, await services.console.doctor());
}

export async function usage({ services, query, reply }: Exchange): Promise<void> {
  const { days, by } = parse(UsageSchema, Object.fromEntries(query));
  reply.json(200, { usage: await services.console.usage(days, { byKey: by === 'key' }) });
}

export async function cancel(exchange: Exchange): Promise<void> {
  const { id } = parse(CancelSchema, presentFields(await readJson(exchange)));
  if (!exchange.services.router.running.cancel(id)) {
    throw new SvcError('NOT_FOUND', 'no request that is being answered has this id', { param: 'id' });
  }
  exchange.reply.json(200, {});
}

async function streamEvents(exchange: Exchange, events: () => AsyncIterable<{ readonly type: string }>): Promise<void> {
  await streamOfGet(exchange, EVENT_LINES, () => streamLines(exchange, events()));
}
