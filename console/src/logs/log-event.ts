import type { LogRecord } from '../../../src/protocol/logs.ts';
import type { ErrorEvent } from '../../../src/protocol/routes.ts';

export type LogEvent = { readonly type: 'line'; readonly record: LogRecord } | ErrorEvent;
