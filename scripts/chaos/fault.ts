/**
 * One fault: how it is planted into a daemon that works, and what must hold then.
 *
 * What must hold is declared and judged by judge.ts: what the user sees, whether the daemon lives,
 * how soon it answers again, which errors other requests may end with, and how many may be lost.
 * Beyond that `plant` throws when anything else is not as it has to be.
 */
import type { Scene } from './scene.ts';

export interface Fault {
  /** The first column of the table; no two have the same. */
  readonly name: string;
  /** How it is planted. */
  readonly planted: string;
  /** Who ends it: `by itself`, or what a person does. */
  readonly mended: string;
  /**
   * Until a request is answered again: from planting, or from mending where a person has to.
   * Seconds of a quiet machine; a slower one has more (slowness.ts).
   */
  readonly withinSeconds: number;
  /** What the user has to see. */
  readonly sees: RegExp;
  /** Other clients ask all the while. */
  readonly underLoad?: boolean;
  /** Errors that requests may end with: their codes as they stand in answers, or `no connection`. */
  readonly mayFail?: readonly string[];
  /** Requests that may end with neither an answer nor an error; 0 without it. */
  readonly mayLose?: number;
  /** lives: one process from the planting to the end. ends: another has its place at the end. absent: there is none before. */
  readonly daemon: 'lives' | 'ends' | 'absent';
  readonly config?: object;
  /** Why it cannot be planted on this machine; undefined: it can. */
  impossible?(): string | undefined;
  /** Plants it, looks, and mends it where a person has to. Resolves with what the user saw. */
  plant(scene: Scene): Promise<string>;
}

/** Throws when something that must hold does not. */
export function must(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}
