/**
 * Tells a stuck engine from a patient one.
 *
 * The JavaScript thread of an engine does nothing long, so its heartbeat comes twice a second
 * whatever the runner computes: silence means that the process is stopped or stuck. A step that
 * never ends means that its runner is. A load must be heard too, but may rest longer on one
 * fraction: a slow disk, a GPU that compiles its kernels, the first token.
 *
 * Time is counted in the daemon's own turns, not by the clock: after the daemon has been stopped,
 * suspended or blocked, the heartbeats wait in the pipe and nobody is to blame.
 */
import type { NativeStats } from '../../engine/addon.ts';

/** A load may rest on one fraction for so many stall timeouts. */
const LOAD_PATIENCE = 10;
/** From the spawn to the first heartbeat a busy machine may need this long, whatever the timeout. */
const START_MS = 10_000;
const LONGEST_TURN_MS = 1_000;

export class StallWatch {
  readonly #timeoutMs: number;
  readonly #onStall: (what: string) => void;
  readonly #timer: NodeJS.Timeout;
  #silentMs = 0;
  #started = false;
  #loading = true;
  #restingMs = 0;
  /** Which step runs, as of the last heartbeat; null: none. */
  #step: number | null = null;
  #stepMs = 0;

  /** `onStall` is called at most once, with the end of a sentence about the engine. */
  constructor(timeoutMs: number, onStall: (what: string) => void) {
    this.#timeoutMs = timeoutMs;
    this.#onStall = onStall;
    const turnMs = Math.min(LONGEST_TURN_MS, timeoutMs / 4);
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#turn(Math.min(now - last, 2 * turnMs));
      last = now;
    }, turnMs);
  }

  /** Anything came from the engine. */
  heard(): void {
    this.#started = true;
    this.#silentMs = 0;
  }

  /** The load got on. */
  progressed(): void {
    this.#restingMs = 0;
  }

  loaded(): void {
    this.#loading = false;
  }

  beat({ steps, stepAgeMs }: NativeStats): void {
    const step = stepAgeMs > 0 ? steps : null;
    if (step !== this.#step) this.#stepMs = 0;
    this.#step = step;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #turn(elapsedMs: number): void {
    this.#silentMs += elapsedMs;
    this.#restingMs += elapsedMs;
    if (this.#step !== null) this.#stepMs += elapsedMs;

    const silenceMs = this.#started ? this.#timeoutMs : Math.max(START_MS, this.#timeoutMs);
    if (this.#silentMs > silenceMs) this.#stalled(`was not heard of for ${seconds(this.#silentMs)}`);
    else if (this.#loading && this.#restingMs > LOAD_PATIENCE * this.#timeoutMs) {
      this.#stalled(`made no progress for ${seconds(this.#restingMs)}`);
    } else if (!this.#loading && this.#stepMs > this.#timeoutMs) {
      this.#stalled(`was in one step for ${seconds(this.#stepMs)}`);
    }
  }

  #stalled(what: string): void {
    this.stop();
    this.#onStall(what);
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}
