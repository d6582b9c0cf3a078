/** One HTTP request to the daemon, over its control socket or TCP; every failure is a SvcError. */
import type { IncomingMessage, RequestOptions as NodeOptions } from 'node:http';
import { urlToHttpOptions } from 'node:url';
import { SvcError, type ErrorRecord } from '../protocol/errors.ts';
import { given } from '../protocol/given.ts';
import { parsedJson } from '../protocol/foreign-text.ts';
import { LONGEST_TIMER_MS } from '../protocol/limits.ts';
import { notRunning } from './daemon-errors.ts';
import { requireTrustedSocket } from './socket-trust.ts';

export interface HttpTarget {
  readonly baseUrl: URL;
  readonly apiKey?: string;
}
export type Target = { readonly socketPath: string } | HttpTarget;

export interface RequestOptions {
  readonly method?: 'GET' | 'POST';
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Aborting ends the request, which then fails with CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /** Timeout until the answer begins, for `fetchJson` until it is complete; then NOT_READY. Absent: no timeout. */
  readonly timeoutMs?: number;
}

/** Limit for answers and lines; more than any record has. */
const ANSWER_BYTES = 64 * 1024 * 1024;

/** Resolves when the answer begins, with any status. The caller reads or destroys the answer. */
export async function send(target: Target, options: RequestOptions): Promise<IncomingMessage> {
  try {
    if ('socketPath' in target) requireTrustedSocket(target.socketPath);
  } catch (error) {
    throw failure(error, target, options.signal);
  }
  const body = bodyOf(options.body);
  const isHttps = 'baseUrl' in target && target.baseUrl.protocol === 'https:';
  // The CLI needs only one of them, and each takes time to load.
  const { request: begin } = isHttps ? await import('node:https') : await import('node:http');
  return await new Promise((resolve, reject) => {
    const { headers, ...place } = placeOf(target, options.path);
    const request = begin({
      ...place,
      method: options.method ?? 'GET',
      // A kept-alive connection would keep the process alive.
      agent: false,
      headers: {
        ...headers,
        accept: 'application/json, application/x-ndjson',
        ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
      },
      ...given({ signal: options.signal }),
    });
    const timer = setTimeout(() => {
      request.destroy(silent());
    }, timerMs(options));
    request.once('response', (response) => {
      clearTimeout(timer);
      resolve(response);
    });
    request.once('error', (error) => {
      clearTimeout(timer);
      reject(failure(error, target, options.signal));
    });
    request.end(body);
  });
}

function timerMs({ timeoutMs = LONGEST_TIMER_MS }: RequestOptions): number {
  return Math.min(timeoutMs, LONGEST_TIMER_MS);
}

function bodyOf(value: unknown): Buffer | undefined {
  if (value === undefined) return undefined;
  try {
    return Buffer.from(JSON.stringify(value));
  } catch (error) {
    throw new SvcError('INVALID_REQUEST', 'the request cannot be written as JSON', { cause: error });
  }
}

function placeOf(
  target: Target,
  path: string,
): Omit<NodeOptions, 'headers'> & { readonly headers: Readonly<Record<string, string>> } {
  if ('socketPath' in target) return { socketPath: target.socketPath, path, headers: { host: 'localhost' } };
  const { baseUrl, apiKey } = target;
  const url = new URL(baseUrl.pathname.replace(/\/$/, '') + path, baseUrl);
  return {
    ...urlToHttpOptions(url),
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
  };
}

/** Returns the whole answer if its status is below 400 or in `accept`; otherwise throws the error in it. */
export async function fetchJson(
  target: Target,
  options: RequestOptions,
  accept: readonly number[] = [],
): Promise<{ readonly status: number; readonly body: unknown }> {
  const response = await send(target, options);
  const timer = setTimeout(() => {
    response.destroy(silent());
  }, timerMs(options));
  let text: string;
  try {
    text = await wholeText(response);
  } catch (error) {
    throw failure(error, target, options.signal);
  } finally {
    clearTimeout(timer);
  }
  const status = response.statusCode ?? 0;
  const body = parseJson(text);
  if (status < 400 || (accept.includes(status) && errorIn(body) === undefined)) return { status, body };
  throw refusal(body, status);
}

/**
 * Yields the JSON values of an answer of JSON lines; after an abort none, even if more have arrived. Ends the request
 * if the iteration ends early.
 */
export async function* streamJson(target: Target, options: RequestOptions): AsyncGenerator<unknown, void, undefined> {
  const response = await send(target, options);
  try {
    if ((response.statusCode ?? 0) >= 400) throw refusal(parseJson(await wholeText(response)), response.statusCode);
    response.setEncoding('utf8');
    let line = '';
    for await (const chunk of response) {
      const pieces = (chunk as string).split('\n');
      const last = pieces.pop() ?? '';
      for (const piece of pieces) {
        const whole = line + piece;
        line = '';
        options.signal?.throwIfAborted();
        if (whole !== '') yield parseJson(whole);
      }
      line += last;
      if (line.length > ANSWER_BYTES) throw malformed('a line is too long');
    }
    options.signal?.throwIfAborted();
    if (line !== '') yield parseJson(line);
  } catch (error) {
    throw failure(error, target, options.signal);
  } finally {
    response.destroy();
  }
}

async function wholeText(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8');
  let text = '';
  for await (const chunk of response) {
    text += chunk as string;
    if (text.length > ANSWER_BYTES) throw malformed('it is too long');
  }
  return text;
}

function refusal(body: unknown, status: number | undefined): SvcError {
  const error = errorIn(body);
  return error === undefined ? malformed(`status ${String(status)}`) : revive(error);
}

interface Refusal {
  /** Id of the request, also in its log line. Absent: the answer is not the daemon's. */
  readonly id?: string;
  readonly error: ErrorRecord;
}

function errorIn(body: unknown): Refusal | undefined {
  const error = (body as { error?: Partial<ErrorRecord> } | null)?.error;
  return typeof error?.code === 'string' && typeof error.message === 'string' ? (body as Refusal) : undefined;
}

/** Rebuilds the SvcError of the daemon. Details of an internal error are only in the log, under its id. */
export function revive({ id, error }: Refusal): SvcError {
  const isLogged = error.code === 'INTERNAL' && id !== undefined;
  return SvcError.fromRecord(isLogged ? { ...error, hint: `\`svc logs\` has the details under ${id}` } : error);
}

function parseJson(text: string): unknown {
  const value = parsedJson(text);
  if (value === undefined) throw malformed('it is not JSON');
  return value;
}

function malformed(why: string): SvcError {
  return new SvcError('INTERNAL', `unexpected answer from the daemon: ${why}`, {
    hint: 'a daemon of another version, or another program, may be running there; see `svc status`',
  });
}

function silent(): SvcError {
  return new SvcError('NOT_READY', 'the daemon does not answer', {
    hint: 'see `svc logs`; `svc stop --force` ends it',
  });
}

function failure(error: unknown, target: Target, signal: AbortSignal | undefined): SvcError {
  if (error instanceof SvcError) return error;
  if (signal?.aborted === true) return new SvcError('CANCELLED', 'cancelled', { cause: signal.reason });
  const place = 'socketPath' in target ? target.socketPath : target.baseUrl.host;
  const code = (error as NodeJS.ErrnoException).code ?? 'no reason given';
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ECONNREFUSED':
    case 'ENOTSOCK':
      return 'socketPath' in target ? notRunning() : nothingThere(place);
    case 'EACCES':
    case 'EPERM':
      return new SvcError('FORBIDDEN', `permission denied: ${place}`, {
        hint: 'run svc as the user who started the daemon',
      });
    case 'ECONNRESET':
    case 'EPIPE':
      return new SvcError('DAEMON_NOT_RUNNING', 'the daemon went away before its answer was complete', {
        hint: 'see `svc logs` for the reason',
      });
    default:
      return new SvcError('DAEMON_NOT_RUNNING', `the daemon cannot be reached at ${place} (${code})`, { cause: error });
  }
}

function nothingThere(place: string): SvcError {
  return new SvcError('DAEMON_NOT_RUNNING', `no daemon listens at ${place}`, {
    hint: 'start it with `svc start`; `svc status` shows its address',
  });
}
