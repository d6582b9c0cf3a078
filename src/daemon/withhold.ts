/** What callers below the scope admin do not see of a record: which providers there are, and processes. */
import type { Caller } from '../protocol/caller.ts';
import type { HealthRecord, ReadyRecord } from '../protocol/records.ts';

/** The Kubernetes API server's words for the same. */
export const WITHHELD = 'reason withheld';

/** Reasons name models, paths and addresses: nothing for strangers, and of providers nothing below admin. */
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
