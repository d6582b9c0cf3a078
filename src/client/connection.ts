/** JSON answers and streams of events from one daemon, on its control socket or over HTTP. */
import { SvcError } from '../protocol/errors.ts';
import type { ErrorEvent } from '../protocol/routes.ts';
import { fetchJson, revive, streamJson, type RequestOptions, type Target } from './request.ts';

/** Timeout of requests that the daemon answers by itself. */
const ANSWER_MS = 5000;

export class Connection {
  readonly #target: Target;

  constructor(target: Target) {
    this.#target = target;
  }

  /** Returns the whole answer if its status is below 400 or in `accept`; otherwise throws the error in it. */
  async ask<Answer>(options: RequestOptions, accept: readonly number[] = []): Promise<Answer> {
    return (await fetchJson(this.#target, { timeoutMs: ANSWER_MS, ...options }, accept)).body as Answer;
  }

  /**
   * Yields the events of an answer, which is complete only with an event of the type `last`. Throws the error of an
   * error event. Ending the iteration early, or aborting, closes the connection, which ends the work in the daemon.
   */
  async *events<Event extends { readonly type: string }>(
    { path, body, signal }: Pick<RequestOptions, 'path' | 'body' | 'signal'>,
    last: Event['type'],
  ): AsyncGenerator<Exclude<Event, ErrorEvent>, void, undefined> {
    let complete = false;
    for await (const value of streamJson(this.#target, { method: 'POST', path, body, signal })) {
      const event = value as Event | ErrorEvent;
      if (isError(event)) throw revive(event);
      yield event as Exclude<Event, ErrorEvent>;
      complete ||= event.type === last;
    }
    if (!complete) {
      throw new SvcError('DAEMON_NOT_RUNNING', 'the daemon went away before its answer was complete', {
        hint: 'see `svc logs` for the reason',
      });
    }
  }
}

function isError(event: { readonly type: string }): event is ErrorEvent {
  return event.type === 'error';
}
