/** An API key as it is shown: without its digest; null where it has no limit. */
import type { ShownKey } from '../protocol/keys.ts';
import type { KeyEntry } from './key-file.ts';

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
