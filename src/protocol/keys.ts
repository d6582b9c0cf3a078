/** API keys as commands print them. The key itself stands in no record but the one that adding it answers. */

/**
 * What a key lets its holder do; each scope may do all that those before it may. `local`: ask the models of this
 * machine. `inference`: ask providers too, which may cost money. `admin`: everything.
 */
export const KEY_SCOPES = ['local', 'inference', 'admin'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** True if `scope` is `needed` or more. */
export function allows(scope: KeyScope, needed: KeyScope): boolean {
  return KEY_SCOPES.indexOf(scope) >= KEY_SCOPES.indexOf(needed);
}

/** `svc key list --json`. */
export interface KeyRecord {
  readonly name: string;
  readonly scope: KeyScope;
  readonly created_at: string;
}
