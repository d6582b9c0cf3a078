/** Models as requests name them: those of this machine, of providers, and policies. */
import type { Capability, ModelRecord } from '../records.ts';
import { DEFAULT_NAME } from './named.ts';

/** A name that a request may use as its model. */
export interface ListedModel {
  readonly id: string;
  /** Further names of the same model. */
  readonly aliases: readonly string[];
  readonly kind: 'local' | 'provider' | 'policy';
  /** `provider`: name of the provider; `svc` for all others. */
  readonly owner: string;
  /** True for the model of requests that name none. */
  readonly default: boolean;
  /** RFC 3339. The epoch: not known. */
  readonly created_at: string;
  /** Longest context of a request, in tokens; of a policy, that every candidate has. null: not known. */
  readonly context_length: number | null;
  /** Known capabilities; of a policy, those that every candidate has. */
  readonly capabilities: readonly Capability[];
  /** False: there may be others. */
  readonly capabilities_tried: boolean;
  /** Local models only. */
  readonly record: ModelRecord | null;
}

/** `name`: id, alias or `default`. */
export function listedNamed(name: string, models: readonly ListedModel[]): ListedModel | undefined {
  return (
    models.find(({ id }) => id === name) ??
    models.find(({ aliases, default: isDefault }) => aliases.includes(name) || (name === DEFAULT_NAME && isDefault))
  );
}
