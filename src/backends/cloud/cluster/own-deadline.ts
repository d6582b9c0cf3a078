/**
 * A deadline in this process's own time. After the process has been stopped, suspended or kept from a processor, what
 * came meanwhile waits in its sockets: a deadline by the clock would pass before any of it is read, and blame others.
 */

/** A turn counts as one part of the time, however long the process was away in it. */
const PARTS = 10;

export interface OwnDeadline {
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
  clear(): void;
}

export function startOwnDeadline(milliseconds: number): OwnDeadline {
  const controller = new AbortController();
  let parts = 0;
  const timer = setInterval(() => {
    parts += 1;
    if (parts < PARTS) return;
    clearInterval(timer);
    controller.abort(new Error(`nothing came within ${String(milliseconds)} ms`));
  }, milliseconds / PARTS).unref();
  return {
    signal: controller.signal,
    clear: () => {
      clearInterval(timer);
    },
  };
}
