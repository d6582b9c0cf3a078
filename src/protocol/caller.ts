/**
 * Who sent a request. A listener finds this out from the connection and the API key; it travels with the
 * request's context, never in its body, so that no client can choose it.
 */
import type { KeyScope } from './keys.ts';

export interface Caller {
  /** `control`: the control socket. `key`: TCP with an API key. `address`: TCP where no key is needed. */
  readonly kind: 'control' | 'key' | 'address';
  /** Name of the API key. null: there was none. */
  readonly name: string | null;
  /** IP address of the other end of the connection. null: the control socket. */
  readonly address: string | null;
  readonly scope: KeyScope;
}

/** Whoever may open the control socket is the owner of the daemon. */
export const CONTROL_CALLER: Caller = { kind: 'control', name: null, address: null, scope: 'admin' };

/**
 * Stable id of those who count as one where something is shared: `key:NAME`, `address:IP` or `control`.
 * Equal for all requests with the same API key, whatever their address.
 */
export function shareOf({ kind, name, address }: Caller): string {
  return kind === 'control' ? kind : `${kind}:${(kind === 'key' ? name : address) ?? ''}`;
}
