/** Answers that are pending on each connection: more than one if the client pipelines its requests. */
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

export class PendingAnswers {
  readonly #limit: number;
  readonly #answers = new WeakMap<Duplex, Set<ServerResponse>>();

  /** `limit`: per connection. Without it Node would read on, and hold a request and an answer for each request. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds an answer until it closes. Returns false, without adding it, at the limit. */
  add(socket: Duplex, res: ServerResponse): boolean {
    const answers = this.#answers.get(socket) ?? new Set();
    if (!this.#answers.has(socket)) {
      this.#answers.set(socket, answers);
      socket.once('close', () => endAll(answers));
    }
    if (answers.size >= this.#limit) return false;
    answers.add(res);
    res.once('close', () => answers.delete(res));
    return true;
  }

  /** True if a part of an answer has been sent. */
  hasBegun(socket: Duplex): boolean {
    return [...(this.#answers.get(socket) ?? [])].some((res) => res.headersSent && !res.writableFinished);
  }
}

/** The connection has closed. Node closes only the current answer; this ends the work for the pipelined ones. */
function endAll(answers: ReadonlySet<ServerResponse>): void {
  for (const res of [...answers]) {
    res.destroy();
    res.emit('close');
  }
}
