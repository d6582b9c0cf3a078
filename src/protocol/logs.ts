/** Log records: one JSON object per line. Written by the daemon, read by `svc logs`. */

/** From least to most severe. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Events of `GET /v1/runtime/logs`. */
export type LogEvent = { readonly type: 'record'; readonly record: LogRecord } | { readonly type: 'end' };

export interface LogRecord {
  readonly level: LogLevel;
  /** RFC 3339, UTC, with milliseconds. */
  readonly time: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}
