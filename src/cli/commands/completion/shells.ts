import { ALIASES } from '../../aliases.ts';
import { bash } from './bash.ts';
import { fish } from './fish.ts';
import type { Commands } from './offers.ts';
import { powershell } from './powershell.ts';
import { zsh } from './zsh.ts';

/** Generators of the completion scripts, from the specs of the commands. Short forms are offered like commands. */
export const SHELLS = {
  bash: (commands: Commands) => bash(withAliases(commands)),
  zsh: (commands: Commands) => zsh(withAliases(commands)),
  fish: (commands: Commands) => fish(withAliases(commands)),
  powershell: (commands: Commands) => powershell(withAliases(commands)),
} as const;

function withAliases(commands: Commands): Commands {
  const specs = new Map(commands);
  const short = Object.entries(ALIASES).flatMap(([alias, name]) => {
    const spec = specs.get(name);
    return spec === undefined ? [] : [[alias, spec] as const];
  });
  return [...commands, ...short];
}
