/** Finds the commands and flags that a text names, and checks that svc has them. */
import { ALIASES, isAlias } from '../../src/cli/aliases.ts';
import { loadSpecs } from '../../src/cli/commands.ts';
import { GROUPS } from '../../src/cli/groups.ts';
import type { Specs } from '../../src/cli/spec.ts';

const COMMANDS: Specs = await loadSpecs();

const GLOBAL_FLAGS = ['help', 'version', 'json'];
/** Placeholder for any command. */
const ANY = 'COMMAND';

/** Returns the commands and flags in the text that are not in the table of commands. */
export function inventedIn(text: string): string[] {
  const invented: string[] = [];
  for (const [, code = ''] of text.matchAll(/`([^`]*)`/g)) {
    // Alternatives and pipeline stages are checked separately.
    for (const part of code.split('|').map((each) => each.trim())) {
      if (part.startsWith('svc ')) invented.push(...inventedInCall(part.slice(4)));
      else if (/^--?[a-z]/.test(part)) invented.push(...unknownFlags(flagsOf(part), everyFlag()));
    }
  }
  return invented;
}

function inventedInCall(call: string): string[] {
  const words = call.replaceAll(/"[^"]*"/g, '').split(/\s+/);
  const [first = '', second = ''] = words;
  if (first.startsWith('-') || first === ANY) return unknownFlags(flagsOf(call), GLOBAL_FLAGS);
  const full = isAlias(first) ? ALIASES[first] : first;
  const name = [`${first} ${second}`, full].find((each) => flagsOfCommand(each) !== undefined);
  if (name === undefined) return Object.hasOwn(GROUPS, first) && second === '' ? [] : [`svc ${first} ${second}`.trim()];
  return unknownFlags(flagsOf(call), [...GLOBAL_FLAGS, ...(flagsOfCommand(name) ?? [])]).map(
    (flag) => `svc ${name} ${flag}`,
  );
}

/** Flags of a command; undefined if there is no such command. */
function flagsOfCommand(name: string): readonly string[] | undefined {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) return undefined;
  const shorts = Object.values(command.flags).flatMap(({ short }) => short ?? []);
  return [...Object.keys(command.flags), ...shorts];
}

function everyFlag(): string[] {
  return Object.keys(COMMANDS).flatMap((name) => flagsOfCommand(name) ?? []);
}

function flagsOf(call: string): string[] {
  return [...call.replaceAll(/"[^"]*"/g, '').matchAll(/(?:^|\s)--?([a-z][a-z-]*)/g)].map(([, flag = '']) => flag);
}

function unknownFlags(flags: readonly string[], known: readonly string[]): string[] {
  return flags.filter((flag) => !known.includes(flag)).map((flag) => (flag.length === 1 ? `-${flag}` : `--${flag}`));
}
