/** Which of the faults are planted: all, those of a name, or a part that differs from commit to commit. */
import type { Fault } from './fault.ts';

export interface Part {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}

/** Throws when `text` is not `K/N`. */
export function readPart(text: string): Part {
  const [, number = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (number < 1 || number > of) throw new Error(`--part takes K/N, 1 ≤ K ≤ N: ${text}`);
  return { number, of };
}

/** The third that belongs to a commit: the same for the same commit, and every one turns up among a few commits. */
export function thirdOf(commitHash: string): Part {
  return { number: 1 + (Number.parseInt(commitHash.slice(0, 8), 16) % 3), of: 3 };
}

/** Every `of`-th fault, so that each family is in each part. Together the parts are all faults, each once. */
export function partOf(faults: readonly Fault[], { number, of }: Part): Fault[] {
  return faults.filter((_, index) => index % of === number - 1);
}
