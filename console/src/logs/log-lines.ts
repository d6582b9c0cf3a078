/** The newest lines of the daemon's log, and those that a filter leaves. */
import { computed, signal } from '@preact/signals';
import { LOG_LEVELS, type LogEvent, type LogLevel, type LogRecord } from '../../../src/protocol/logs.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import type { ApiError } from '../api/api-error.ts';
import { follow } from '../api/follow.ts';

/** Lines that are kept. */
const MOST_LINES = 10_000;
/** Lines that are read before those that follow. */
const TAIL = 10_000;
/** Lines arrive thousands at a time; they are shown together. */
const BATCH_MS = 50;

export interface LogLine {
  /** Grows by one each line. */
  readonly number: number;
  readonly record: LogRecord;
  /** What the text filter searches, in lower case. */
  readonly text: string;
}

const lines = signal<readonly LogLine[]>([]);
export const textFilter = signal('');
export const requestFilter = signal('');
export const levelFilter = signal<LogLevel>('trace');
export const logError = signal<ApiError | null>(null);

export const lineCount = computed(() => lines.value.length);
export const shownLines = computed(() => {
  const text = textFilter.value.trim().toLowerCase();
  const request = requestFilter.value.trim();
  const least = LOG_LEVELS.indexOf(levelFilter.value);
  if (text === '' && request === '' && least === 0) return lines.value;
  return lines.value.filter(
    (line) =>
      LOG_LEVELS.indexOf(line.record.level) >= least &&
      (text === '' || line.text.includes(text)) &&
      (request === '' || isOf(line.record, request)),
  );
});

let nextNumber = 0;

/** Reads the log until `signal` is aborted. Never throws. */
export async function followLog(signal: AbortSignal): Promise<void> {
  const batch: LogLine[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    timer = undefined;
    if (signal.aborted) return;
    lines.value = [...lines.value, ...batch.splice(0)].slice(-MOST_LINES);
  };
  lines.value = [];
  const path = `${HTTP_ROUTES.runtimeLogs}?tail=${TAIL}&follow=1`;
  await follow<LogEvent | ErrorEvent>(path, signal, logError, ({ record }, isFirst) => {
    if (isFirst) {
      // It begins with lines that an earlier stream may have brought.
      lines.value = [];
      batch.length = 0;
    }
    batch.push(lineOf(record));
    timer ??= setTimeout(flush, BATCH_MS);
  });
  clearTimeout(timer);
  flush();
}

function lineOf(record: LogRecord): LogLine {
  nextNumber += 1;
  return { number: nextNumber, record, text: `${record.msg} ${JSON.stringify(record)}`.toLowerCase() };
}

function isOf(record: LogRecord, request: string): boolean {
  return [record['id'], record['trace_id']].includes(request);
}
