/**
 * Removes from records what a caller may not see: below the scope admin providers and process ids, and models that are
 * not in the list of its API key.
 */
import type { Caller } from '../protocol/caller.ts';
import { lists, listsLocal } from '../protocol/keys.ts';
import type { ListedModel } from '../protocol/model/listed.ts';
import type { HealthRecord, ModelRecord, ReadyRecord } from '../protocol/records.ts';

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

/** The models that the caller may use. */
export function modelsFor(records: readonly ModelRecord[], caller: Caller | null): readonly ModelRecord[] {
  const models = caller?.limits?.models;
  return models === undefined ? records : records.filter((record) => listsLocal(models, record));
}

/** The names of models, providers' models and policies that the caller may use. */
export function listedFor(listed: readonly ListedModel[], caller: Caller | null): readonly ListedModel[] {
  const models = caller?.limits?.models;
  return listed.filter((each) =>
    each.kind === 'local'
      ? listsLocal(models, each)
      : lists(models, each.kind === 'provider' ? [each.owner, each.id] : [each.id]),
  );
}

export function healthFor(record: HealthRecord, caller: Caller | null): HealthRecord {
  if (caller?.scope === 'admin') return record;
  const { conditions } = readyFor(record, caller);
  const reason = record.reason === null ? null : WITHHELD;
  return {
    ...record,
    reason,
    conditions,
    models: record.models
      .filter(({ id }) => listsLocal(caller?.limits?.models, { id, aliases: [] }))
      .map((each) => ({ ...each, pid: null })),
    providers: [],
  };
}
