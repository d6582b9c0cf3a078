/**
 * Liveness, readiness and the health record. `?verbose` and `/readyz/NAME` have the format of the Kubernetes API
 * server, so that its tools can read them. These handlers read no body and await nothing.
 */
import { SvcError } from '../../protocol/errors.ts';
import { CONDITION_NAMES, type Condition, type ConditionName } from '../../protocol/records.ts';
import { healthFor, readyFor } from '../withhold.ts';
import type { Exchange } from './exchange.ts';

const RETRY_AFTER_SECONDS = 1;

/** Depends on nothing but the event loop. */
export function livez({ query, reply }: Exchange): void {
  reply.setHeader('cache-control', 'no-store');
  if (query.has('verbose')) reply.text(200, '[+]ping ok\nlivez check passed\n');
  else reply.json(200, { status: 'ok' });
}

export function readyz(exchange: Exchange): void {
  const { query, services, reply, caller } = exchange;
  const excluded = query.getAll('exclude');
  const record = readyFor(services.ready(new Set(excluded.filter(isConditionName))), caller);
  const passed = record.status === 'ready';
  const status = begin(exchange, passed);
  if (!query.has('verbose')) return reply.json(status, record);

  const lines = [
    ...record.conditions.map(verboseLine),
    ...excluded.filter(isConditionName).map((name) => `[+]${name} excluded: ok`),
    ...excluded
      .filter((name) => !isConditionName(name))
      .map((name) => `warn: no check is named ${JSON.stringify(name)}`),
    `readyz check ${passed ? 'passed' : 'failed'}`,
  ];
  reply.text(status, `${lines.join('\n')}\n`);
}

/** `/readyz/NAME`: readiness by one condition; `warn` passes. */
export function readyzOne(exchange: Exchange): void {
  const { param, query, services, reply, caller } = exchange;
  const record = readyFor(services.ready(), caller);
  const condition = record.conditions.find(({ name }) => name === param);
  if (condition === undefined) throw new SvcError('NOT_FOUND', 'no check has this name');

  const passed = condition.status !== 'fail';
  const status = begin(exchange, passed);
  if (query.has('verbose'))
    reply.text(status, `${verboseLine(condition)}\nreadyz check ${passed ? 'passed' : 'failed'}\n`);
  else reply.json(status, { ...record, status: passed ? 'ready' : 'not_ready', conditions: [condition] });
}

export function health(exchange: Exchange): void {
  const record = healthFor(exchange.services.health(), exchange.caller);
  exchange.reply.json(begin(exchange, record.status === 'ready'), record);
}

function begin({ reply }: Exchange, passed: boolean): number {
  reply.setHeader('cache-control', 'no-store');
  if (passed) return 200;
  reply.setHeader('retry-after', String(RETRY_AFTER_SECONDS));
  return 503;
}

function verboseLine({ name, status, reason }: Condition): string {
  if (status === 'ok') return `[+]${name} ok`;
  return status === 'warn' ? `[+]${name} ok, with a warning: ${reason}` : `[-]${name} failed: ${reason}`;
}

function isConditionName(name: string): name is ConditionName {
  return (CONDITION_NAMES as readonly string[]).includes(name);
}
