/** API keys as commands print them. Only `svc key add` returns the key itself, once. */

/**
 * Permissions of a key; each scope includes those before it. `local`: use this machine's models. `inference`: also
 * use providers, which may cost money. `admin`: everything.
 */
export const KEY_SCOPES = ['local', 'inference', 'admin'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** True if `scope` includes `needed`. */
export function allows(scope: KeyScope, needed: KeyScope): boolean {
  return KEY_SCOPES.indexOf(scope) >= KEY_SCOPES.indexOf(needed);
}
