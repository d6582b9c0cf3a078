/** Keys of an object that its schema does not name. */
import { classOf, complement, intersect, literal, type Range } from './characters.ts';
import type { Notation } from './notation.ts';
import type { Rules } from './rules.ts';

/** Name of the rule for the text of any key except `names`. */
export function keyOtherThan(names: readonly string[], notation: Notation, rules: Rules): string {
  const { keyCharacters, hasEmptyKey } = notation;
  const rest = rules.nameOf(`${classOf(keyCharacters)}*`);
  /** A trie: a character on the path of a name continues in the trie; after any other character anything may follow. */
  const notOnPath = (paths: readonly (readonly string[])[]): string => {
    if (paths.length === 0) return rest;
    const byFirst = new Map<string, (readonly string[])[]>();
    for (const [first, ...tail] of paths)
      if (first !== undefined) byFirst.set(first, [...(byFirst.get(first) ?? []), tail]);
    const parts = [...byFirst]
      .filter(([first]) => intersect(keyCharacters, [rangeOf(first)]).length > 0)
      .map(([first, tails]) => `${literal(first)} ${rules.nameOf(notOnPath(tails))}`);
    const others = intersect(keyCharacters, complement([...byFirst.keys()].map(rangeOf)));
    if (others.length > 0) parts.push(`${classOf(others)} ${rest}`);
    if (!paths.some((path) => path.length === 0)) parts.push('""');
    return `(${parts.join(' | ')})`;
  };
  const all = new Set(hasEmptyKey ? names : [...names, '']);
  return rules.nameOf(notOnPath([...all].map((name) => [...name])));
}

function rangeOf(character: string): Range {
  return [character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0];
}
