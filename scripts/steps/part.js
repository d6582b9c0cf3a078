/** Selects what a run does: a part of a list, by its number or by the checked-out commit. */
import { run, StepError } from './run.js';

/** Parses `K/N`; throws StepError if `text` has another form. */
export function readPart(text) {
  const [, number = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (number < 1 || number > of) throw new StepError(`--part takes K/N, 1 ≤ K ≤ N: ${text}`);
  return { number, of };
}

/** Returns the third for a commit: deterministic per commit, and a few commits cover all three. Throws without a hash. */
export function thirdOf(commitHash) {
  if (!/^[0-9a-f]{40}$/.test(commitHash)) throw new Error(`not the hash of a commit: ${commitHash}`);
  return { number: 1 + (Number.parseInt(commitHash.slice(0, 8), 16) % 3), of: 3 };
}

/** Returns the third for the commit that is checked out. */
export async function thirdOfHead() {
  return thirdOf((await run('commit', 'git', ['rev-parse', 'HEAD'])).trim());
}

/** Returns every `of`-th item, so that each part has items of each family. The parts are disjoint and complete. */
export function partOf(items, { number, of }) {
  return items.filter((_, index) => index % of === number - 1);
}
