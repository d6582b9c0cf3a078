/** Newline-delimited JSON. */

export const NDJSON_CONTENT_TYPE = 'application/x-ndjson; charset=utf-8';

/** JSON escapes line breaks in strings, so the line break at the end is the only one. */
export function ndjsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
