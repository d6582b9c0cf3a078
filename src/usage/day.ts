/** Days as the ledger counts them, in UTC. */
import { DAY_MS } from '../protocol/limits.ts';

/** `2026-11-21` of an RFC 3339 time in UTC. */
export function dateOf(at: string): string {
  return at.slice(0, 10);
}

/** The midnight after `date`, in milliseconds since 1970. */
export function midnightAfter(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) + DAY_MS;
}
