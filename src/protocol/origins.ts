/** Web pages that may use the HTTP API, by their origin: the entries of the setting `http.origins`. */
import type { KeyScope } from './keys.ts';

/** An origin as browsers send it, with the most that its pages may do. Without a scope: `inference`. */
export type OriginEntry = string | { readonly origin: string; readonly scope?: KeyScope };

/** Scope of an origin that is listed without one. */
const DEFAULT_SCOPE: KeyScope = 'inference';

/** Returns the origin of an entry. */
export function originOf(entry: OriginEntry): string {
  return typeof entry === 'string' ? entry : entry.origin;
}

/** Returns the most that pages of `origin` may do. undefined: the origin is not listed. */
export function scopeOfOrigin(entries: readonly OriginEntry[], origin: string): KeyScope | undefined {
  const entry = entries.find((each) => originOf(each) === origin);
  if (entry === undefined) return undefined;
  return typeof entry === 'string' ? DEFAULT_SCOPE : (entry.scope ?? DEFAULT_SCOPE);
}

/**
 * True if `text` is one exact origin as a browser writes it in the header Origin: scheme, host and port, in lower case,
 * without the scheme's usual port, path or wildcard. `null` and `file://` are not: any page can have them.
 */
export function isOrigin(text: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._-]+(:\d{1,5})?$|^https?:\/\/\[[0-9a-f:]+\](:\d{1,5})?$/.test(text))
    return false;
  if (text.startsWith('file:')) return false;
  return !/^https?:/.test(text) || (URL.canParse(text) && new URL(text).origin === text);
}
