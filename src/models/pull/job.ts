/**
 * Work with several listeners: it starts with the first and is aborted when the last one has left. A later listener
 * first gets the events so far.
 */

/** True if `now` replaces `before` in the history. */
export type IsReplaced<Event> = (before: Event, now: Event) => boolean;

interface Listener<Event> {
  readonly unread: Event[];
  wake(): void;
}

export class Job<Event> {
  readonly #controller = new AbortController();
  readonly #isReplaced: IsReplaced<Event>;
  readonly #listeners = new Set<Listener<Event>>();
  readonly #history: Event[] = [];
  /** Resolves when the work has ended, with or without an error. */
  readonly settled: Promise<void>;
  #end: { readonly error?: unknown } | null = null;

  constructor(
    isReplaced: IsReplaced<Event>,
    work: (emit: (event: Event) => void, signal: AbortSignal) => Promise<void>,
  ) {
    this.#isReplaced = isReplaced;
    this.settled = work((event) => this.#emit(event), this.#controller.signal).then(
      () => this.#ended({}),
      (error: unknown) => this.#ended({ error }),
    );
  }

  /** True while the work is being aborted: too late to join. */
  get isLeft(): boolean {
    return this.#controller.signal.aborted;
  }

  /**
   * Ends with the work, and rethrows its error. Returning early or aborting leaves the job; the last waits for its end.
   */
  async *listen(signal: AbortSignal): AsyncGenerator<Event, void, undefined> {
    let wake: () => void = () => undefined;
    const listener: Listener<Event> = { unread: [...this.#history], wake: () => wake() };
    this.#listeners.add(listener);
    signal.addEventListener('abort', listener.wake);
    try {
      for (;;) {
        signal.throwIfAborted();
        const event = listener.unread.shift();
        if (event !== undefined) {
          yield event;
        } else if (this.#end !== null) {
          if ('error' in this.#end) throw this.#end.error;
          return;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      signal.removeEventListener('abort', listener.wake);
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0 && this.#end === null) {
        this.#controller.abort(signal.reason);
        await this.settled;
      }
    }
  }

  #emit(event: Event): void {
    for (const events of [this.#history, ...Array.from(this.#listeners, ({ unread }) => unread)]) {
      const last = events.at(-1);
      if (last !== undefined && this.#isReplaced(last, event)) events.pop();
      events.push(event);
    }
    this.#wakeAll();
  }

  #ended(end: { readonly error?: unknown }): void {
    this.#end = end;
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const listener of [...this.#listeners]) listener.wake();
  }
}
