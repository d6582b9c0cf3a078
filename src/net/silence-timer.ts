/**
 * Detects a silent peer. A plain timer also fires after this process itself was stopped or blocked, because Node runs
 * due timers before it reads sockets. This one fires only after Node has read what had arrived.
 */
export class SilenceTimer {
  readonly #timer: NodeJS.Timeout;
  #isSilent = false;

  /** Calls `onSilent` once nothing was heard for `ms`. Does not keep the process alive. */
  constructor(ms: number, onSilent: () => void) {
    this.#timer = setTimeout(() => {
      this.#isSilent = true;
      setImmediate(() => {
        if (this.#isSilent) onSilent();
      });
    }, ms).unref();
  }

  /** The peer has sent something. */
  heard(): void {
    this.#isSilent = false;
    this.#timer.refresh();
  }

  stop(): void {
    this.#isSilent = false;
    clearTimeout(this.#timer);
  }
}
