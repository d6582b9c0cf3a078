/** API keys as commands print them. Only `svc key add` returns the key itself, once. */
import * as v from 'valibot';
import { LIMITS } from './limits.ts';

/**
 * Permissions of a key; each scope includes those before it. `local`: use this machine's models. `inference`: also
 * use providers, which may cost money. `admin`: everything.
 */
export const KEY_SCOPES = ['local', 'inference', 'admin'] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** Name under which the sessions of the console appear in the log, the ledger and metrics. No key may have it. */
export const CONSOLE_KEY = 'console';

/** True if `scope` includes `needed`. */
export function allows(scope: KeyScope, needed: KeyScope): boolean {
  return KEY_SCOPES.indexOf(scope) >= KEY_SCOPES.indexOf(needed);
}

/** As `svc key list --json` shows it; null: no limit. */
export interface ShownKey {
  readonly name: string;
  readonly scope: KeyScope;
  readonly models: readonly string[] | null;
  readonly tokens_per_day: number | null;
  readonly tokens_per_month: number | null;
  readonly expires_at: string | null;
  readonly created_at: string;
}

/** A key to make. */
export interface KeyWishes extends KeyLimits {
  readonly name: string;
  /** Absent: `inference`. */
  readonly scope?: KeyScope;
  /** RFC 3339, in the future. Absent: never. */
  readonly expires_at?: string;
}

/** A new key, shown once. */
export interface NewKey extends ShownKey {
  readonly key: string;
}

/** What a key may use, within its scope. */
export interface KeyLimits {
  /**
   * Ids and aliases of models, names of providers (`local` is this machine), `PROVIDER/MODEL`, and names of policies.
   * Absent: all.
   */
  readonly models?: readonly string[];
  /** Input and output tokens per day (UTC). Absent: unlimited. */
  readonly tokens_per_day?: number;
  /** Input and output tokens per calendar month (UTC). Absent: unlimited. */
  readonly tokens_per_month?: number;
}

const tokens = v.pipe(v.number(), v.safeInteger(), v.minValue(1));

/** Fields that limit a key: as in KeyLimits and KeyWishes. */
export const KEY_LIMIT_FIELDS = {
  models: v.exactOptional(
    v.pipe(
      v.array(v.pipe(v.string(), v.minLength(1), v.maxLength(LIMITS.modelNameLength))),
      v.minLength(1),
      v.maxLength(LIMITS.keyModels),
    ),
  ),
  tokens_per_day: v.exactOptional(tokens),
  tokens_per_month: v.exactOptional(tokens),
  expires_at: v.exactOptional(v.pipe(v.string(), v.isoTimestamp())),
};

/** True if there is a limit on tokens. */
export function hasQuota({ tokens_per_day, tokens_per_month }: KeyLimits): boolean {
  return tokens_per_day !== undefined || tokens_per_month !== undefined;
}

/** True if the list of a key has one of the names, in any case. An absent list has all. */
export function lists(models: readonly string[] | undefined, names: readonly string[]): boolean {
  if (models === undefined) return true;
  const asked = new Set(names.map((name) => name.toLowerCase()));
  return models.some((each) => asked.has(each.toLowerCase()));
}

/** True if the list of a key has this model of this machine. An absent list has all. */
export function listsLocal(
  models: readonly string[] | undefined,
  { id, aliases }: { readonly id: string; readonly aliases: readonly string[] },
): boolean {
  return lists(models, ['local', ...[id, ...aliases].flatMap((name) => [name, `local/${name}`])]);
}
