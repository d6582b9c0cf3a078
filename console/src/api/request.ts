/** Requests to the daemon that served this page. */
import type { HealthRecord } from '../../../src/protocol/records.ts';
import { HTTP_ROUTES, type ErrorEvent } from '../../../src/protocol/routes.ts';
import { ApiError, errorOf, isErrorEvent } from './api-error.ts';
import { key } from '../state/session.ts';

export interface Ask {
  readonly method?: 'GET' | 'POST';
  /** Sent as JSON; makes the method POST. */
  readonly body?: object;
  readonly signal?: AbortSignal;
}

/** Returns the JSON of the answer. Throws ApiError. */
export async function ask<Answer>(path: string, options: Ask = {}): Promise<Answer> {
  const response = await send(path, options);
  return (await response.json()) as Answer;
}

/** Returns the health record; a daemon that is not ready sends it with status 503. Throws ApiError. */
export async function askHealth(signal: AbortSignal): Promise<HealthRecord> {
  const response = await fetchAnswer(HTTP_ROUTES.health, { signal });
  if (!response.ok) {
    const record = (await response
      .clone()
      .json()
      .catch(() => null)) as Partial<HealthRecord> | null;
    if (response.status !== 503 || record?.state === undefined) throw await errorOf(response);
  }
  return (await response.json()) as HealthRecord;
}

/**
 * Yields the JSON lines of an answer as they arrive; empty lines, which keep the connection alive, are skipped. Throws
 * ApiError, also for an event of type `error` and for an answer that is cut off in a line.
 */
export async function* askLines<Line extends { readonly type: string }>(
  path: string,
  options: Ask = {},
): AsyncGenerator<Exclude<Line, ErrorEvent>> {
  const response = await send(path, options);
  for await (const line of linesOf(response)) {
    const event = JSON.parse(line) as Line;
    if (isErrorEvent(event)) throw ApiError.fromRecord(event.error);
    yield event as Exclude<Line, ErrorEvent>;
  }
}

/** Returns the answer of a request, whatever its status. Throws ApiError if there is none. */
async function fetchAnswer(path: string, { method, body, signal }: Ask): Promise<Response> {
  const headers = new Headers({ accept: 'application/json, application/x-ndjson' });
  // A page of another origin cannot send this header, so it shows whose request this is. An empty value is no key.
  headers.set('x-api-key', key.value ?? '');
  if (body !== undefined) headers.set('content-type', 'application/json');
  try {
    return await fetch(path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    throw ApiError.unreachable(error);
  }
}

async function send(path: string, options: Ask): Promise<Response> {
  const response = await fetchAnswer(path, options);
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function* linesOf(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop() ?? '';
      yield* parts.filter((part) => part.trim() !== '');
    }
  } catch (error) {
    throw ApiError.unreachable(error);
  } finally {
    // Also when the reader of these lines stops early: the daemon then ends its work.
    await reader.cancel().catch(() => undefined);
  }
  if (rest.trim() !== '') throw ApiError.cutOff();
}
