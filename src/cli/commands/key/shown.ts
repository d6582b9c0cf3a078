/** An API key as `svc key` prints it: without its digest; null where it has no limit. */
import type { KeyEntry } from '../../../home/key-file.ts';

export interface ShownKey {
  readonly name: string;
  readonly scope: string;
  readonly models: readonly string[] | null;
  readonly tokens_per_day: number | null;
  readonly tokens_per_month: number | null;
  readonly expires_at: string | null;
  readonly created_at: string;
}

/** Returns what may be shown of a key. */
export function shownKey(entry: KeyEntry): ShownKey {
  return {
    name: entry.name,
    scope: entry.scope,
    models: entry.models ?? null,
    tokens_per_day: entry.tokens_per_day ?? null,
    tokens_per_month: entry.tokens_per_month ?? null,
    expires_at: entry.expires_at ?? null,
    created_at: entry.created_at,
  };
}
