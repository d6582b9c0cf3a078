/**
 * A deadline in this process's own running time. After the process was stopped, suspended or not scheduled, received
 * data waits in its sockets: a wall-clock deadline would expire before that is read, and blame the server.
 */

/** Each timer turn counts as one part of the time, however long the process was stopped in it. */
const PARTS = 10;

export interface OwnDeadline {
  /** Aborts when the deadline expires. */
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
    controller.abort(new Error(`nothing received within ${String(milliseconds)} ms`));
  }, milliseconds / PARTS).unref();
  return {
    signal: controller.signal,
    clear: () => {
      clearInterval(timer);
    },
  };
}
