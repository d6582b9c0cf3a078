/** One JSON value a line. */

export const NDJSON_CONTENT_TYPE = 'application/x-ndjson; charset=utf-8';

/** JSON escapes every line break inside strings, so the one at the end is the only one. */
export function ndjsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
