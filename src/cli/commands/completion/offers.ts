/**
 * Completion candidates for each position, shared by the three script generators. Names of models and providers come
 * from `svc model list` and `svc provider list` when Tab is pressed: both work without a daemon and take a fraction
 * of a second. Everything else is written into the script.
 */
import { catalogue } from '../../../config/catalogue.ts';
import { settingNames } from '../../../config/settings.ts';
import { GROUPS } from '../../groups.ts';
import type { Argument, Flag, Spec } from '../../spec.ts';

export type Offer =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  /** First words of the output lines of `svc model list` or `svc provider list`, without the header. */
  | { readonly kind: 'listed'; readonly by: 'model' | 'provider'; readonly orFile: boolean }
  | { readonly kind: 'file' }
  | { readonly kind: 'nothing' };

export type Commands = readonly (readonly [name: string, spec: Spec])[];

/** Returns the first words (commands and groups) with their summaries. */
export function firstWords(commands: Commands): [word: string, summary: string][] {
  const single = commands
    .filter(([name]) => !name.includes(' '))
    .map(([name, { summary }]) => [name, summary] as const);
  return [...single, ...Object.entries(GROUPS), ['help', 'Show help']].map(([word, summary]) => [word, summary]);
}

/** Returns the second words of a group, with their summaries. */
export function secondWords(commands: Commands, group: string): [word: string, summary: string][] {
  return commands
    .filter(([name]) => name.startsWith(`${group} `))
    .map(([name, { summary }]) => [name.slice(group.length + 1), summary]);
}

export const groups: readonly string[] = Object.keys(GROUPS);

/** Returns the spellings of a flag: `-m`, `--model`. */
export function spellings(name: string, flag: Flag): string[] {
  return [...(flag.short === undefined ? [] : [`-${flag.short}`]), `--${name}`];
}

/** Returns undefined if the flag takes no value. */
export function offerOfFlag(flag: Flag): Offer | undefined {
  if (flag.kind === 'switch') return undefined;
  if (flag.kind === 'choice') return { kind: 'words', words: flag.choices };
  return offerOf(flag.completes, true);
}

export function offerOfArgument({ choices, completes }: Argument): Offer {
  return choices === undefined ? offerOf(completes, false) : { kind: 'words', words: choices };
}

/** `orFile`: true for a flag, whose model may be a path; false for an argument, which names a registered model. */
function offerOf(completes: Argument['completes'], orFile: boolean): Offer {
  switch (completes) {
    case 'model':
      return { kind: 'listed', by: 'model', orFile };
    case 'provider':
      return { kind: 'listed', by: 'provider', orFile: false };
    case 'catalogue':
      return { kind: 'words', words: [...catalogue().keys()] };
    case 'setting':
      return { kind: 'words', words: settingNames() };
    case 'file':
      return { kind: 'file' };
    case undefined:
      return { kind: 'nothing' };
  }
}
