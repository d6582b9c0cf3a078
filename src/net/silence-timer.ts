/**
 * Notices that a peer is silent. A plain timer would blame it for a standstill of this process: Node runs the timers
 * that are due before it reads from sockets. So this one calls back after Node has read what had arrived.
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
