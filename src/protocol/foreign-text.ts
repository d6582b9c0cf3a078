/**
 * Fallbacks in place of exceptions: for untrusted text, which JavaScript's functions decode with a throw, and for calls
 * whose failures all mean the same.
 */

/** Returns what `work` returns; `otherwise` if it throws. */
export function orElse<Result, Otherwise>(work: () => Result, otherwise: Otherwise): Result | Otherwise {
  try {
    return work();
  } catch {
    return otherwise;
  }
}

/** Decodes percent-encoding. undefined: invalid, such as `%ff`. */
export function decodePercent(text: string): string | undefined {
  return orElse(() => decodeURIComponent(text), undefined);
}

/** Parses JSON. undefined: invalid. */
export function parsedJson(text: string): unknown {
  return orElse<unknown, undefined>(() => JSON.parse(text), undefined);
}
