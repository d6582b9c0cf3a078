/** Short forms of commands that are typed often: `svc pull` is `svc model pull`. */

export const ALIASES = {
  pull: 'model pull',
  list: 'model list',
  ls: 'model list',
  rm: 'model rm',
  show: 'model show',
} as const satisfies Record<string, `model ${string}`>;

export type Alias = keyof typeof ALIASES;

export function isAlias(word: string): word is Alias {
  return Object.hasOwn(ALIASES, word);
}

/** Returns the short forms of a command. */
export function aliasesOf(name: string): string[] {
  return Object.entries(ALIASES).flatMap(([alias, command]) => (command === name ? [alias] : []));
}
