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

/** The property in which `objectText` keeps a text that is not a JSON object. */
const KEPT = 'invalid_arguments';

/**
 * Returns the arguments of an earlier tool call as a JSON object. A valid object is returned unchanged; empty text and
 * null become `{}`. Anything else (arguments that a token limit cut off) is put into an object, so that the model sees
 * it.
 */
export function objectText(text: string): string {
  const value = parsedJson(text);
  // Some clients quote what they cannot parse.
  const written = typeof value === 'string' ? value : text;
  const read = typeof value === 'string' ? parsedJson(value) : value;
  if (read === null || written.trim() === '') return '{}';
  return typeof read === 'object' && !Array.isArray(read) ? written : JSON.stringify({ [KEPT]: written });
}
