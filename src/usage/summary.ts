/** The ledger, added up by day, provider and model. */
import type { UsageLine } from './ledger.ts';

/** One row of `svc usage`. */
export interface UsageRecord {
  /** `2026-11-21`, UTC. */
  readonly day: string;
  readonly provider: string;
  /** null: nobody had begun to answer. */
  readonly model: string | null;
  readonly requests: number;
  /** Of them, those that ended with an error. */
  readonly failed: number;
  readonly input_tokens: number;
  /** Of the input, what a cache held. */
  readonly cached_tokens: number;
  readonly output_tokens: number;
  /** Answers whose provider did not tell what they took: the figures hold nothing of them. */
  readonly untold: number;
}

/** Sorted by day, provider and model. */
export async function summarise(lines: AsyncIterable<UsageLine>): Promise<UsageRecord[]> {
  const rows = new Map<string, { -readonly [Key in keyof UsageRecord]: UsageRecord[Key] }>();
  for await (const line of lines) {
    if (line.event !== 'answered') continue;
    const day = line.at.slice(0, 10);
    const key = [day, line.provider, line.model ?? ''].join('\n');
    let row = rows.get(key);
    if (row === undefined) {
      const none = { requests: 0, failed: 0, input_tokens: 0, cached_tokens: 0, output_tokens: 0, untold: 0 };
      row = { day, provider: line.provider, model: line.model, ...none };
      rows.set(key, row);
    }
    row.requests += 1;
    if (line.outcome !== 'ok') row.failed += 1;
    else if (line.input_tokens === null) row.untold += 1;
    row.input_tokens += line.input_tokens ?? 0;
    row.cached_tokens += line.cached_tokens ?? 0;
    row.output_tokens += line.output_tokens ?? 0;
  }
  return [...rows.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}
