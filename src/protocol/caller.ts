/**
 * Identity of the client that sent a request. The listener takes it from the connection and the API key. It is
 * passed beside the request, never in its body, so that a client cannot choose it.
 */
import type { KeyLimits, KeyScope } from './keys.ts';

export interface Caller {
  /** `control`: the control socket. `key`: TCP with an API key. `address`: TCP where no key is needed. */
  readonly kind: 'control' | 'key' | 'address';
  /** Name of the API key. null: no key. */
  readonly name: string | null;
  /** Network of the peer (net/ip-address.ts). null: the control socket. */
  readonly address: string | null;
  readonly scope: KeyScope;
  /** Limits of the API key. Absent: it has none. */
  readonly limits?: KeyLimits;
}

/** File permissions let only the daemon's owner open the control socket, hence `admin`. */
export const CONTROL_CALLER: Caller = { kind: 'control', name: null, address: null, scope: 'admin' };

/**
 * Stable id of the client for fair sharing: `key:NAME`, `address:IP` or `control`.
 * All requests with the same API key have the same share, from any address.
 */
export function shareOf({ kind, name, address }: Caller): string {
  return kind === 'control' ? kind : `${kind}:${(kind === 'key' ? name : address) ?? ''}`;
}
