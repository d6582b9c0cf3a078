/** Bytes of an answer in, server-sent events out, however the bytes were cut. */
import { createParser } from 'eventsource-parser';
import { SvcError } from '../../protocol/errors.ts';
import type { ServerEvent } from './wire.ts';

/** Characters of one event; images and long tool arguments fit. */
const EVENT_LIMIT = 8 * 1024 * 1024;

export class EventStream {
  // Leaves out a byte order mark.
  readonly #decoder = new TextDecoder();
  #events: ServerEvent[] = [];
  #isTooLong = false;
  readonly #parser = createParser({
    maxBufferSize: EVENT_LIMIT,
    onEvent: ({ event = '', data }) => void this.#events.push({ name: event, data }),
    onError: ({ type }) => {
      // Lines that are no field of an event are skipped, as everybody does.
      if (type === 'max-buffer-size-exceeded') this.#isTooLong = true;
    },
  });

  /** The events that end in `bytes`. Throws PROVIDER_FAILED for one without an end. */
  push(bytes: Uint8Array): readonly ServerEvent[] {
    return this.#feed(this.#decoder.decode(bytes, { stream: true }));
  }

  /** What the last empty line is missing from. */
  end(): readonly ServerEvent[] {
    return this.#feed(`${this.#decoder.decode()}\n\n`);
  }

  #feed(text: string): readonly ServerEvent[] {
    this.#parser.feed(text);
    if (this.#isTooLong) {
      throw new SvcError('PROVIDER_FAILED', `one event is longer than ${String(EVENT_LIMIT)} characters`);
    }
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }
}
