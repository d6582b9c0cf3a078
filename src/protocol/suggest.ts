/** Returns the known name closest to `given`, which may be mistyped; undefined: none is close. */
export function suggest(given: string, known: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(given.length / 3));
  let best: string | undefined;
  let least = limit + 1;
  for (const candidate of known) {
    // The distance is at least the difference of the lengths. So no long text is compared letter by letter.
    if (Math.abs(given.length - candidate.length) >= least) continue;
    const distance = editDistance(given, candidate);
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best ?? known.find((candidate) => given.length >= 2 && candidate.startsWith(given));
}

/** Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(at(previous, j) + 1, at(current, j - 1) + 1, at(previous, j - 1) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(before, j - 2) + 1);
      current.push(cost);
    }
    [before, previous] = [previous, current];
  }
  return at(previous, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
