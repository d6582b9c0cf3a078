/** A background response as its client sees it: the events of its stream so far, and the response itself. */
import { SvcError } from '../../protocol/errors.ts';
import { ResponseBuilder, type ResponseEvent } from '../../protocol/openai/responses/response-builder.ts';
import { storedItems } from '../../protocol/openai/responses/items.ts';
import { parseResponses, type ResponsesCall } from '../../protocol/openai/responses/request.ts';
import type { ResponseRecord, StoredResponse } from '../../protocol/openai/responses/response.ts';
import { sseEvent } from '../../protocol/streams/sse.ts';
import { isLast, type Asked, type Entry, type Story } from './journal.ts';

export class Transcript {
  readonly call: ResponsesCall;
  readonly #asked: Asked;
  readonly #answer: ResponseBuilder;
  /** Encoded; the index is the `sequence_number`. */
  readonly #events: string[] = [];
  #now: number;
  #ended = false;

  /** Throws INVALID_REQUEST if the body is not one of this version. */
  constructor(asked: Asked) {
    const { id, at, body } = asked;
    this.call = parseResponses(body);
    this.#asked = asked;
    this.#now = at;
    this.#answer = new ResponseBuilder({ id, call: this.call, store: true, background: true, now: () => this.#now });
  }

  /** The same journal always gives the same events. */
  static of({ asked, entries }: Story): Transcript {
    const transcript = new Transcript(asked);
    for (const entry of entries) transcript.add(entry);
    return transcript;
  }

  /** Encoded events after the one with this sequence number, each made when it is read. Throws as the constructor. */
  static *eventsAfter(sequence: number, { asked, entries }: Story): Generator<readonly string[], void> {
    const transcript = new Transcript(asked);
    for (const entry of entries) {
      for (const event of transcript.#take(entry))
        if (event.sequence_number > sequence) yield [sseEvent(event.type, event)];
    }
  }

  get events(): readonly string[] {
    return this.#events;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get response(): ResponseRecord {
    return this.#answer.response;
  }

  /** The response so far, as it would be stored. */
  get record(): StoredResponse {
    const { id, owner, items } = this.#asked;
    const input = storedItems(
      id,
      items.map(({ item }) => item),
    );
    return { owner, stored_at: Date.now(), response: this.response, input };
  }

  add(entry: Entry): void {
    for (const event of this.#take(entry)) this.#events.push(sseEvent(event.type, event));
    if (isLast(entry)) this.#ended = true;
  }

  #take(entry: Entry): readonly ResponseEvent[] {
    this.#now = entry.at;
    if ('error' in entry) return this.#answer.fail(SvcError.fromRecord(entry.error), this.#asked.id);
    if ('cancelled' in entry) return this.#answer.cancel();
    if ('taken_up' in entry) return [];
    const events = this.#answer.take(entry.event);
    return entry.event.type === 'finish' ? [...events, ...this.#answer.last()] : events;
  }
}
