/** Tells a background response from its journal: the same lines give the same events, however often they are told. */
import { SvcError } from '../../protocol/errors.ts';
import { Answer, type ResponseEvent } from '../../protocol/openai/responses/answer.ts';
import { parseResponses } from '../../protocol/openai/responses/request.ts';
import type { ResponseRecord } from '../../protocol/openai/responses/response.ts';
import type { JournalLine, RequestLine } from './journal.ts';

export class Telling {
  readonly #answer: Answer;
  #at: number;
  #isOver = false;

  /** Throws INVALID_REQUEST if this svc does not know the request. */
  constructor({ id, body, created_at: createdAt }: RequestLine) {
    this.#at = createdAt;
    this.#answer = new Answer({
      id,
      call: parseResponses(body),
      store: true,
      now: () => Math.floor(this.#at / 1000),
    });
  }

  get response(): ResponseRecord {
    return this.#answer.response;
  }

  /** True once the end was told. */
  get isOver(): boolean {
    return this.#isOver;
  }

  tell(line: JournalLine): ResponseEvent[] {
    if ('version' in line) return this.#answer.queue();
    if ('events' in line) return line.events.flatMap((event) => this.#answer.take(event));
    if (!('end' in line) || this.#isOver) return [];
    this.#isOver = true;
    const { at, finish, error } = line.end;
    this.#at = at;
    if (finish !== undefined) return [...this.#answer.take(finish), ...this.#answer.last()];
    return this.#answer.stop(error === undefined ? null : SvcError.fromRecord(error));
  }
}
