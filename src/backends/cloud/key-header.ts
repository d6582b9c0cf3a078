import type { Quirks } from './provider.ts';

/** The header with the key; empty without a key. */
export function keyHeader(key: string | null, header: NonNullable<Quirks['key_header']>): Record<string, string> {
  if (key === null) return {};
  return { [header]: header === 'authorization' ? `Bearer ${key}` : key };
}
