/**
 * Logging with pino: one JSON line per event, to the log file, stderr or both. Credential fields are redacted here,
 * whichever code logs them; prompts and answers are never logged.
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
  /** After this no earlier line is lost, even if the process ends with the next statement. */
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

/** Longest line in characters, so that no client can force the log to rotate with a few long lines. */
const LINE_LENGTH = 16 * 1024;
const CUT_LENGTH = 2 * 1024;

/** Cuts longer lines to valid JSON: level, time and message, and the beginning of the line as text. */
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

/** Longest message of an error that is not a SvcError: Node's messages quote the wrong argument. */
const MESSAGE_LENGTH = 1024;

/** Serializes an error for the log field `err`. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error, message: 'something other than an Error was thrown' };
  const code = (error as { code?: unknown }).code;
  // V8 quotes the text it could not parse, which may be a prompt.
  const message = error instanceof SyntaxError ? 'syntax error' : error.message.slice(0, MESSAGE_LENGTH);
  // A SvcError has all facts in its code and message; the stack of any other error leads to the bug.
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

/** Writes to stderr synchronously, so that no line is lost at process exit. */
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
      // EAGAIN: the reader is too slow; EPIPE: the reader is gone. Neither may stop the daemon.
    }
  }

  flushSync(): void {
    // `write` is synchronous already.
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Writes each line to all of `destinations`. */
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
