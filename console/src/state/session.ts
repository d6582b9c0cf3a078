/**
 * The API key of this page. It is in the tab's session storage: it ends with the tab, and no other page can read it.
 */
import { signal } from '@preact/signals';
import type { ApiError } from '../api/api-error.ts';

const STORED = 'svc.key';

/** null: requests carry no key. */
export const key = signal<string | null>(sessionStorage.getItem(STORED));
/** Why the daemon asks for a key; null: it does not. */
export const keyWanted = signal<ApiError | null>(null);

/** `next`: null forgets the key. */
export function useKey(next: string | null): void {
  if (next === null) sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, next);
  key.value = next;
  keyWanted.value = null;
}

/** Notes that the daemon refused the key that a request carried. An answer to an older key changes nothing. */
export function refuseKey(refused: string | null, error: ApiError): void {
  if (refused === key.value) keyWanted.value = error;
}

/** Takes the token of a one-time link out of the address, and out of the history; null: there is none. */
export function takeLinkToken(): string | null {
  const token = /^#signin=([\w-]{1,256})$/.exec(location.hash)?.[1];
  if (token === undefined) return null;
  history.replaceState(null, '', location.pathname);
  return token;
}
