/**
 * Detects engines that hang.
 *
 * The JavaScript thread of an engine does no long work, so its heartbeat comes twice a second whatever the runner
 * computes. Silence means that the process is stopped or stuck. A step that computes nothing more means that the runner
 * is stuck; a request whose preparation (template, tokens, grammar) never ends, that a worker thread is. A load needs
 * heartbeats too, also while it waits for memory, but may stay longer at one fraction: a slow disk, a GPU compiling
 * kernels, the first token.
 *
 * After SILENCE_MS without a heartbeat an engine counts as silent, whatever its timeout. That is only reported.
 *
 * Time is counted in turns of the daemon's own timer, not by the clock: while the daemon was stopped, suspended or
 * blocked, heartbeats waited in the pipe, which is not the engine's fault.
 */
import type { NativeStats } from '../../engine/addon.ts';
import type { SubmitProgress } from '../../engine/messages.ts';

/** Stall timeouts that a load may stay at one fraction. */
const LOAD_PATIENCE = 10;
/** Minimum time allowed from the spawn to the first heartbeat, since the machine may be busy. */
const START_MS = 10_000;
const LONGEST_TURN_MS = 1_000;
const SILENCE_MS = 10_000;

interface RunningStep {
  /** Number of steps before it. */
  readonly count: number;
  readonly operations: number;
  /** Of its part that is being computed now: a prompt in the lane has several. */
  readonly ageMs: number;
}

function isProgress(before: RunningStep | null, now: RunningStep | null): boolean {
  if (before === null || now === null) return true;
  return now.count !== before.count || now.operations !== before.operations || now.ageMs < before.ageMs;
}

export interface StallWatchOptions {
  readonly timeoutMs: number;
  /**
   * Called at most once. `what` continues "the engine of X …". `request`: id of the request whose preparation does
   * not end; null if something else stalls.
   */
  onStall(what: string, request: number | null): void;
  /** `isSilent` changed. */
  onSilence(): void;
}

export class StallWatch {
  readonly #options: StallWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #silentMs = 0;
  #started = false;
  #loading = true;
  #restingMs = 0;
  /** The running step, from the last heartbeat; null: none. */
  #step: RunningStep | null = null;
  /** Time since it has last shown progress. */
  #stepMs = 0;
  #isSilent = false;
  /** Progress of request preparation, from the last heartbeat. */
  #submits: SubmitProgress = { done: 0, oldest: null };
  #submitMs = 0;

  constructor(options: StallWatchOptions) {
    this.#options = options;
    const { timeoutMs } = options;
    const turnMs = Math.min(LONGEST_TURN_MS, timeoutMs / 4);
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.#turn(Math.min(now - last, 2 * turnMs));
      last = now;
    }, turnMs);
  }

  /** True if the engine has sent nothing for SILENCE_MS. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Something was received from the engine. */
  heard(): void {
    this.#started = true;
    this.#silentMs = 0;
    this.#setSilent(false);
  }

  /** The load made progress. */
  progressed(): void {
    this.#restingMs = 0;
  }

  loaded(): void {
    this.#loading = false;
  }

  beat({ steps, step_age_ms, operations }: NativeStats, submits: SubmitProgress): void {
    const step = step_age_ms > 0 ? { count: steps.count, operations, ageMs: step_age_ms } : null;
    if (isProgress(this.#step, step)) this.#stepMs = 0;
    this.#step = step;
    if (submits.done !== this.#submits.done || submits.oldest !== this.#submits.oldest) this.#submitMs = 0;
    this.#submits = submits;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #turn(elapsedMs: number): void {
    this.#silentMs += elapsedMs;
    this.#restingMs += elapsedMs;
    if (this.#step !== null) this.#stepMs += elapsedMs;
    if (this.#submits.oldest !== null) this.#submitMs += elapsedMs;
    if (this.#started && this.#silentMs > SILENCE_MS) this.#setSilent(true);

    const { timeoutMs } = this.#options;
    const silenceMs = this.#started ? timeoutMs : Math.max(START_MS, timeoutMs);
    if (this.#silentMs > silenceMs) this.#stalled(`was not heard of for ${seconds(this.#silentMs)}`);
    else if (this.#loading && this.#restingMs > LOAD_PATIENCE * timeoutMs) {
      this.#stalled(`made no progress for ${seconds(this.#restingMs)}`);
    } else if (!this.#loading && this.#stepMs > timeoutMs) {
      this.#stalled(`was in one step for ${seconds(this.#stepMs)}`);
    } else if (!this.#loading && this.#submitMs > timeoutMs) {
      this.#stalled(`prepared one request for ${seconds(this.#submitMs)}`, this.#submits.oldest);
    }
  }

  #stalled(what: string, request: number | null = null): void {
    this.stop();
    this.#options.onStall(what, request);
  }

  #setSilent(isSilent: boolean): void {
    if (isSilent === this.#isSilent) return;
    this.#isSilent = isSilent;
    this.#options.onSilence();
  }
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
}
