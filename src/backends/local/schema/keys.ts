/** Keys of an object that its schema does not name. */
import { classOf, complement, intersect, literal, type Range } from './characters.ts';
import type { Notation } from './notation.ts';
import type { Rules } from './rules.ts';

/** A node of the trie of all names. */
interface Node {
  readonly next: Map<string, Node>;
  isName: boolean;
  /** Name of the rule for what may follow; '' until it is written. */
  rule: string;
}

/** Name of the rule for the text of any key except `names`. */
export function keyOtherThan(names: readonly string[], notation: Notation, rules: Rules): string {
  const { keyCharacters, hasEmptyKey } = notation;
  const rest = rules.nameOf(`${classOf(keyCharacters)}*`);
  const nodes = trieOf(hasEmptyKey ? names : [...names, ''], keyCharacters);
  // A node's children come after it. No recursion: a name may be longer than the stack is deep.
  for (const node of [...nodes].reverse()) {
    // A character on the path of a name continues in the trie; after any other character anything may follow.
    const parts = [...node.next].map(([character, { rule }]) => `${literal(character)} ${rule}`);
    const others = intersect(keyCharacters, complement([...node.next.keys()].map(rangeOf)));
    if (others.length > 0) parts.push(`${classOf(others)} ${rest}`);
    if (!node.isName) parts.push('""');
    node.rule = rules.nameOf(`(${parts.join(' | ')})`);
  }
  return nodes[0].rule;
}

/** Nodes of the trie, each before its children. Names that cannot be written with the characters are left out. */
function trieOf(names: readonly string[], characters: readonly Range[]): readonly [root: Node, ...Node[]] {
  const nodes: [Node, ...Node[]] = [{ next: new Map(), isName: false, rule: '' }];
  for (const name of names) {
    const path = [...name];
    if (path.some((character) => intersect(characters, [rangeOf(character)]).length === 0)) continue;
    let [node] = nodes;
    for (const character of path) {
      let next = node.next.get(character);
      if (next === undefined) {
        next = { next: new Map(), isName: false, rule: '' };
        node.next.set(character, next);
        nodes.push(next);
      }
      node = next;
    }
    node.isName = true;
  }
  return nodes;
}

function rangeOf(character: string): Range {
  return [character.codePointAt(0) ?? 0, character.codePointAt(0) ?? 0];
}
