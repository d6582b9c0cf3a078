/** Sums of the ledger's rows. */

import type { UsageRecord } from '../../../src/protocol/usage.ts';
import { modelName } from '../parts/format.ts';

export interface Sum extends Omit<UsageRecord, 'day' | 'provider' | 'model' | 'key' | 'untold'> {
  readonly name: string;
}

/** The newest day first. */
export function byDay(rows: readonly UsageRecord[]): Sum[] {
  return summed(rows, ({ day }) => day).sort((a, b) => (a.name < b.name ? 1 : -1));
}

/** Those with the most tokens first. */
export function byModel(rows: readonly UsageRecord[]): Sum[] {
  const tokens = ({ input_tokens, output_tokens }: Sum): number => input_tokens + output_tokens;
  return summed(rows, nameOf).sort((a, b) => tokens(b) - tokens(a));
}

function nameOf({ provider, model }: UsageRecord): string {
  if (model === null) return `${provider}, no answer`;
  return modelName({ provider, model });
}

function summed(rows: readonly UsageRecord[], name: (row: UsageRecord) => string): Sum[] {
  const sums = new Map<string, Sum>();
  for (const row of rows) {
    const key = name(row);
    const before = sums.get(key);
    sums.set(key, {
      name: key,
      requests: row.requests + (before?.requests ?? 0),
      failed: row.failed + (before?.failed ?? 0),
      input_tokens: row.input_tokens + (before?.input_tokens ?? 0),
      cached_tokens: row.cached_tokens + (before?.cached_tokens ?? 0),
      output_tokens: row.output_tokens + (before?.output_tokens ?? 0),
    });
  }
  return [...sums.values()];
}
