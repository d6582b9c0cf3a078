/**
 * One fault: how it is injected into a working daemon, and the expected outcome.
 *
 * The declared expectations are checked by judge.ts: what the user sees, whether the daemon lives,
 * how soon it answers again, which errors other requests may get, and how many requests may be lost.
 * `plant` throws if any further expectation fails.
 */
import type { Scene } from './scene.ts';

export interface Fault {
  /** First column of the table; unique. */
  readonly name: string;
  /** How the fault is injected. */
  readonly planted: string;
  /** How the fault is repaired: `by itself`, or what the user does. */
  readonly mended: string;
  /**
   * Maximum time until a request is answered again, counted from the injection, or from the repair if the user must
   * act. Seconds on a quiet machine; a slower machine gets more (slowness.ts).
   */
  readonly withinSeconds: number;
  /** Matches what the user must see. */
  readonly sees: RegExp;
  /** True if other clients send requests throughout. */
  readonly underLoad?: boolean;
  /** Allowed errors of requests: codes as in answers, or `no connection`. */
  readonly mayFail?: readonly string[];
  /** Number of requests that may end with neither an answer nor an error; default 0. */
  readonly mayLose?: number;
  /** lives: the same process throughout. ends: another process at the end. absent: no daemon before. */
  readonly daemon: 'lives' | 'ends' | 'absent';
  readonly config?: object;
  /** Reason why the fault cannot be injected on this machine; undefined if it can. */
  impossible?(): string | undefined;
  /** Injects the fault, checks, and repairs it if the user must. Resolves with what the user saw. */
  plant(scene: Scene): Promise<string>;
}

/** Throws unless the condition holds. */
export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}
