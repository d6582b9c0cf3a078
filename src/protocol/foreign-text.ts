/** Decoding of untrusted text, without the exceptions that Node's functions throw. */

/** Decodes percent-encoding. undefined: invalid, such as `%ff`. */
export function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
