/** Compares versions such as 2.35. */

/** True if `one` is newer than `other`; a part that is missing counts as 0. */
export function isNewer(one, other) {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number));
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}
