/** Text from elsewhere, in forms at which Node's own functions throw. */

/** Without percent-encoding. undefined: it is not valid, such as `%ff`. */
export function decodePercent(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
