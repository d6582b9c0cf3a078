/**
 * Logging: pino, one JSON line an event, to the log file, to stderr or to both. Fields that hold
 * credentials are struck out here, whoever passes them; prompts and answers are never passed.
 */
import { writeSync } from 'node:fs';
import pino, { stdTimeFunctions, type Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import type { LogLevel } from '../protocol/logs.ts';
import { formatLogLine } from './format.ts';

export type { Logger };

/** Where lines go; each ends with a newline. */
export interface LogDestination {
  /** Returns at once and never throws. */
  write(line: string): void;
  /** Nothing that was written before is lost after this, even if the process ends in the next statement. */
  flushSync(): void;
  close(): Promise<void>;
}

export interface LoggerOptions {
  /** Default `info`. */
  readonly level?: LogLevel | 'silent';
  /** Default: JSON lines on stderr. */
  readonly destination?: LogDestination;
}

const CREDENTIAL_FIELDS = [
  'api_key',
  'apiKey',
  'authorization',
  'Authorization',
  'proxy-authorization',
  'x-api-key',
  'x-goog-api-key',
  'cookie',
  'password',
  'secret',
  'access_token',
];

export function createLogger(options: LoggerOptions = {}): Logger {
  return pino(
    {
      level: options.level ?? 'info',
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
      redact: {
        paths: CREDENTIAL_FIELDS.flatMap((name) => [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`]),
        censor: '[redacted]',
      },
    },
    bounded(options.destination ?? new StderrLog()),
  );
}

/** Characters of a line. Whatever finds its way into one, no client can have the log rotated away with few of them. */
const LINE_LENGTH = 16 * 1024;
const CUT_LENGTH = 2 * 1024;

/** A longer line stays one of JSON: its level, time and message, and the beginning of the rest as text. */
function bounded(destination: LogDestination): Pick<LogDestination, 'write' | 'flushSync'> {
  return {
    write: (line) => {
      destination.write(line.length <= LINE_LENGTH ? line : cut(line));
    },
    flushSync: () => {
      destination.flushSync();
    },
  };
}

function cut(line: string): string {
  const { level, time, msg = '' } = JSON.parse(line) as { level: string; time: string; msg?: string };
  const begins = line.slice(0, CUT_LENGTH);
  return `${JSON.stringify({ level, time, msg: msg.slice(0, CUT_LENGTH), cut: line.length, begins })}\n`;
}

/** Of a foreign error: Node's quote the argument that was wrong. */
const MESSAGE_LENGTH = 1024;

/** An error as a log field: `err`. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error, message: 'something other than an Error was thrown' };
  const code = (error as { code?: unknown }).code;
  // V8 quotes the text it could not parse, which may be a prompt.
  const message = error instanceof SyntaxError ? 'syntax error' : error.message.slice(0, MESSAGE_LENGTH);
  // An error of ours says all in its code and message; the stack of a foreign one leads to the bug.
  const stack =
    error instanceof SvcError
      ? undefined
      : error.stack
          ?.split('\n')
          .filter((line) => /^\s+at /.test(line))
          .join('\n');
  return {
    type: error.name,
    ...(typeof code === 'string' ? { code } : {}),
    message,
    ...(stack === undefined || stack === '' ? {} : { stack }),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/** Synchronous, so that nothing is lost at the end of the process. */
export class StderrLog implements LogDestination {
  readonly #pretty: { readonly colour: boolean } | null;

  /** `pretty`: for people at a terminal; absent: JSON lines. */
  constructor(pretty: { readonly colour: boolean } | null = null) {
    this.#pretty = pretty;
  }

  write(line: string): void {
    const shown = this.#pretty === null ? line : `${formatLogLine(line.trimEnd(), { ...this.#pretty, date: false })}\n`;
    let bytes = Buffer.from(shown);
    try {
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(2, bytes));
    } catch {
      // EAGAIN: the reader is too slow for a log line; EPIPE: it is gone. Neither may stop the daemon.
    }
  }

  flushSync(): void {
    // Every line was written when it came.
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Each line to all of `destinations`. */
export class Tee implements LogDestination {
  readonly #destinations: readonly LogDestination[];

  constructor(destinations: readonly LogDestination[]) {
    this.#destinations = destinations;
  }

  write(line: string): void {
    for (const destination of this.#destinations) destination.write(line);
  }

  flushSync(): void {
    for (const destination of this.#destinations) destination.flushSync();
  }

  async close(): Promise<void> {
    await Promise.all(this.#destinations.map((destination) => destination.close()));
  }
}
