/** Removes from records what callers below the scope admin may not see: providers and process ids. */
import type { Caller } from '../protocol/caller.ts';
import type { HealthRecord, ReadyRecord } from '../protocol/records.ts';

/** Text that the Kubernetes API server uses for the same purpose. */
export const WITHHELD = 'reason withheld';

/** Reasons name models, paths and addresses: hidden without a key; those of providers hidden below admin. */
export function readyFor(record: ReadyRecord, caller: Caller | null): ReadyRecord {
  if (caller?.scope === 'admin') return record;
  const conditions = record.conditions.map((condition) =>
    caller === null || condition.name === 'providers' ? { ...condition, reason: WITHHELD } : condition,
  );
  return { ...record, conditions };
}

export function healthFor(record: HealthRecord, caller: Caller | null): HealthRecord {
  if (caller?.scope === 'admin') return record;
  const { conditions } = readyFor(record, caller);
  const reason = record.reason === null ? null : WITHHELD;
  return {
    ...record,
    reason,
    conditions,
    models: record.models.map((each) => ({ ...each, pid: null })),
    providers: [],
  };
}
