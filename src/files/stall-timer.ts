/**
 * Detects a file system that does not respond: an operation that takes a second or more.
 *
 * Time is counted in ticks of a timer, not by the clock. While the event loop is blocked, or the process gets no
 * processor, the end of an operation goes unnoticed, which is not the file system's fault.
 */
const STALLED_TICKS = 4;
const TICK_MS = 250;

export class StallTimer {
  #timer: NodeJS.Timeout | null = null;
  #ticks = 0;

  /** An operation begins, or has made progress. */
  restart(): void {
    this.#ticks = 0;
    this.#timer ??= setInterval(() => (this.#ticks += 1), TICK_MS).unref();
  }

  /** No operation runs. */
  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#ticks = 0;
  }

  get isStalled(): boolean {
    return this.#ticks >= STALLED_TICKS;
  }
}
