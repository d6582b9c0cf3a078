/** API keys as commands print them. The key itself stands in no record but the one that adding it answers. */

/** What a key lets its holder do; `admin` is everything. */
export const KEY_SCOPES = ['inference', 'admin'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** `svc key list --json`. */
export interface KeyRecord {
  readonly name: string;
  readonly scope: KeyScope;
  readonly created_at: string;
}
