/** Formats log lines for people: `svc logs`, and `svc serve` on a terminal. */
import { LOG_LEVELS, type LogLevel, type LogRecord } from '../protocol/logs.ts';
import { parsedJson } from '../protocol/foreign-text.ts';

export interface FormatOptions {
  readonly colour: boolean;
  /** True: date and time; false: time of day only. In local time. */
  readonly date: boolean;
}

const COLOURS: Record<LogLevel, string> = {
  trace: '\u001b[90m',
  debug: '\u001b[36m',
  info: '\u001b[32m',
  warn: '\u001b[33m',
  error: '\u001b[31m',
  fatal: '\u001b[1;31m',
};
const DIM = '\u001b[90m';
const PLAIN = '\u001b[0m';

/** Parses a log line. null: the daemon's logger did not write it (a crash report of Node, for example). */
export function parseLogLine(line: string): LogRecord | null {
  if (!line.startsWith('{')) return null;
  const record = (parsedJson(line) ?? {}) as Partial<LogRecord>;
  const known = LOG_LEVELS.some((level) => level === record.level);
  return known && typeof record.time === 'string' && typeof record.msg === 'string' ? (record as LogRecord) : null;
}

/** True if a line is at least as severe as `level`. A line that is not a log record always is: it is from a crash. */
export function isAtLeast(line: string, level: LogLevel): boolean {
  const record = parseLogLine(line);
  return record === null || LOG_LEVELS.indexOf(record.level) >= LOG_LEVELS.indexOf(level);
}

/** Formats one line, without its newline; an error's stack follows on further lines. */
export function formatLogLine(line: string, options: FormatOptions): string {
  const record = parseLogLine(line);
  if (record === null) return printable(line);
  const { level, time, msg, err, ...fields } = record;

  const paint = (code: string, text: string): string => (options.colour ? `${code}${text}${PLAIN}` : text);
  const parts = [
    paint(DIM, localTime(time, options.date)),
    paint(COLOURS[level], level.toUpperCase().padEnd(5)),
    printable(msg),
  ];
  for (const [name, value] of Object.entries(fields)) {
    parts.push(`${paint(DIM, `${name}=`)}${formatValue(value)}`);
  }
  return parts.join(' ') + formatError(err, paint);
}

function formatError(err: unknown, paint: (code: string, text: string) => string): string {
  if (typeof err !== 'object' || err === null) return '';
  const { type, code, message, stack } = err as Record<string, unknown>;
  const name = typeof code === 'string' ? code : typeof type === 'string' ? type : 'Error';
  const head = ` ${paint(DIM, 'err=')}${formatValue(`${name}: ${typeof message === 'string' ? message : ''}`)}`;
  if (typeof stack !== 'string' || stack === '') return head;
  return (
    head +
    stack
      .split('\n')
      .map((frame) => `\n    ${paint(DIM, printable(frame.trim()))}`)
      .join('')
  );
}

function formatValue(value: unknown): string {
  if (typeof value === 'string' && /^[\w./:@+-]+$/.test(value)) return value;
  return printable(JSON.stringify(value));
}

function localTime(time: string, date: boolean): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return printable(time);
  const two = (number: number): string => String(number).padStart(2, '0');
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  return date ? `${String(at.getFullYear())}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}` : clock;
}

/** Escapes control characters, which must not reach a terminal. */
function printable(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g, (character) => {
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
}
