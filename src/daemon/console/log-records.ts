/** The daemon's own log, for the console: its last records, and new ones as they are written. */
import { parseLogLine } from '../../log/format.ts';
import { follow, tailLog } from '../../log/tail.ts';
import { LOG_LEVELS, type LogEvent, type LogLevel, type LogRecord } from '../../protocol/logs.ts';

export interface LogQuery {
  /** Number of earlier records. */
  readonly tail: number;
  readonly follow: boolean;
  /** Id of a request, or of its trace. Absent: all records. */
  readonly request?: string;
  /** Absent: all levels. */
  readonly level?: LogLevel;
}

/**
 * Ends with `end`, if new records are not requested. Rejects with CANNOT_WRITE, FORBIDDEN, or the reason of `signal`.
 */
export async function* logRecords(
  path: string,
  query: LogQuery,
  signal: AbortSignal,
): AsyncGenerator<LogEvent, void, undefined> {
  const wanted = (line: string): boolean => wantedRecord(line, query) !== null;
  const { lines, log } = await tailLog(path, query.tail, wanted);
  // From here on the file is closed by `follow`, or here.
  const rest = query.follow ? follow(path, log, signal) : null;
  try {
    for (const line of lines) yield* eventsOf(line, query);
    if (rest !== null) for await (const line of rest) yield* eventsOf(line, query);
    yield { type: 'end' };
  } finally {
    await rest?.return(undefined as never);
    await log?.file.close().catch(() => undefined);
  }
}

function* eventsOf(line: string, query: LogQuery): Generator<LogEvent, void, undefined> {
  const record = wantedRecord(line, query);
  if (record !== null) yield { type: 'record', record };
}

/** null: another record, or no record. */
function wantedRecord(line: string, { request, level = 'trace' }: LogQuery): LogRecord | null {
  // Spares the parser most lines of a long log.
  if (request !== undefined && !line.includes(request)) return null;
  const record = parseLogLine(line);
  if (record === null || LOG_LEVELS.indexOf(record.level) < LOG_LEVELS.indexOf(level)) return null;
  const isOf = request === undefined || [record['id'], record['trace_id']].includes(request);
  return isOf ? record : null;
}
