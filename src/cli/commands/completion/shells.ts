import { bash } from './bash.ts';
import { fish } from './fish.ts';
import { zsh } from './zsh.ts';

/** Generators of the completion scripts, from the specs of the commands. */
export const SHELLS = { bash, zsh, fish } as const;
