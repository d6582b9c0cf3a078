/** Parses server-sent events from the bytes of a response, however they are chunked. */
import { createParser } from 'eventsource-parser';
import { SvcError } from '../../protocol/errors.ts';
import type { ServerEvent } from './wire.ts';

/** Maximum characters of one event; images and long tool arguments fit. */
const EVENT_LIMIT = 8 * 1024 * 1024;
/** Maximum characters of an answer. It and what the readers hold back of it are kept until it ends. */
const ANSWER_LIMIT = 64 * 1024 * 1024;

export class EventStream {
  // Removes a byte order mark.
  readonly #decoder = new TextDecoder();
  #events: ServerEvent[] = [];
  #isTooLong = false;
  #characters = 0;
  readonly #parser = createParser({
    maxBufferSize: EVENT_LIMIT,
    onEvent: ({ event = '', data }) => void this.#events.push({ name: event, data }),
    onError: ({ type }) => {
      // Lines that are not event fields are skipped, as the standard requires.
      if (type === 'max-buffer-size-exceeded') this.#isTooLong = true;
    },
  });

  /** Events completed by `bytes`. Throws PROVIDER_FAILED beyond EVENT_LIMIT and ANSWER_LIMIT. */
  push(bytes: Uint8Array): readonly ServerEvent[] {
    return this.#feed(this.#decoder.decode(bytes, { stream: true }));
  }

  /** A last event without its closing empty line. */
  end(): readonly ServerEvent[] {
    return this.#feed(`${this.#decoder.decode()}\n\n`);
  }

  #feed(text: string): readonly ServerEvent[] {
    this.#parser.feed(text);
    this.#characters += text.length;
    if (this.#isTooLong) throw tooLong('an event', EVENT_LIMIT);
    if (this.#characters > ANSWER_LIMIT) throw tooLong('an answer', ANSWER_LIMIT);
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }
}

function tooLong(what: string, limit: number): SvcError {
  return new SvcError('PROVIDER_FAILED', `the provider sent ${what} longer than ${String(limit)} characters`);
}
