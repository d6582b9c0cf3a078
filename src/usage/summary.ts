/** Sums up the ledger by day, provider and model, and optionally by API key. */
import { DAY_MS } from '../protocol/limits.ts';
import type { UsageRecord } from '../protocol/usage.ts';
import { dateOf } from './day.ts';
import { readUsage, type UsageLine } from './ledger.ts';

/** Sorted by day, provider, key and model. */
export async function summarise(
  lines: AsyncIterable<UsageLine>,
  { byKey = false }: { readonly byKey?: boolean } = {},
): Promise<UsageRecord[]> {
  const rows = new Map<string, { -readonly [Key in keyof UsageRecord]: UsageRecord[Key] }>();
  for await (const line of lines) {
    if (line.event !== 'answered') continue;
    const day = dateOf(line.at);
    const holder = byKey ? { key: line.key ?? null } : {};
    const name = [day, line.provider, holder.key ?? '', line.model ?? ''].join('\n');
    let row = rows.get(name);
    if (row === undefined) {
      const none = { requests: 0, failed: 0, input_tokens: 0, cached_tokens: 0, output_tokens: 0, untold: 0 };
      row = { day, provider: line.provider, ...holder, model: line.model, ...none };
      rows.set(name, row);
    }
    row.requests += 1;
    if (line.outcome !== 'ok') row.failed += 1;
    else if (line.input_tokens === null || line.estimated === true) row.untold += 1;
    row.input_tokens += line.input_tokens ?? 0;
    row.cached_tokens += line.cached_tokens ?? 0;
    row.output_tokens += line.output_tokens ?? 0;
  }
  return [...rows.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

/** The last `days` days in UTC, today included, from the ledger in `dir`. */
export async function usageByDay(
  dir: string,
  days: number,
  { byKey }: { readonly byKey: boolean },
): Promise<UsageRecord[]> {
  const from = dateOf(new Date(Date.now() - (days - 1) * DAY_MS).toISOString());
  return await summarise(readUsage(dir, from), { byKey });
}
