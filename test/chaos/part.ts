/** Selects the faults to run: all, by name, or a part that depends on the commit. */
import type { Fault } from './fault.ts';

export interface Part {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}

/** Parses `K/N`; throws if `text` has another form. */
export function readPart(text: string): Part {
  const [, number = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (number < 1 || number > of) throw new Error(`--part takes K/N, 1 ≤ K ≤ N: ${text}`);
  return { number, of };
}

/** Returns the third for a commit: deterministic per commit, and a few commits cover all three. */
export function thirdOf(commitHash: string): Part {
  return { number: 1 + (Number.parseInt(commitHash.slice(0, 8), 16) % 3), of: 3 };
}

/** Returns every `of`-th fault, so that each part has faults of each family. The parts are disjoint and complete. */
export function partOf(faults: readonly Fault[], { number, of }: Part): Fault[] {
  return faults.filter((_, index) => index % of === number - 1);
}
