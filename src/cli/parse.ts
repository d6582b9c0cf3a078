/**
 * Parses the command line in two steps, so that only the command that is used is loaded. `dispatch` finds its name and
 * calls its action, with sade. `parse` reads its flags and arguments by its spec. Errors are INVALID_REQUEST (exit 2).
 *
 * By itself sade would drop a bare `-`, consume the word after a switch and turn it into a number (`run --json 007`),
 * accept unknown flags, read `-v` as `--version` anywhere, and end the process on an error. Therefore `parse` first
 * rewrites argv into an unambiguous form: the command, each flag as `--name` or `--name=value`, `--`, the arguments.
 */
import sade from 'sade';
import { SvcError } from '../protocol/errors.ts';
import { COMMANDS, isCommand, type CommandName } from './commands.ts';
import { GROUPS, isGroup, type GroupName } from './groups.ts';
import type { Flag, Spec } from './spec.ts';
import { suggest } from '../protocol/suggest.ts';

/** A command, a group of commands, or (undefined) all. */
export type Topic = CommandName | GroupName | undefined;

export interface Actions<Result> {
  version(): Result;
  help(topic: Topic): Result;
  /** `rest`: the arguments without the words of the name. */
  command(name: CommandName, rest: readonly string[]): Result;
}

/** Calls the one action that the arguments ask for. Flags without a value may come before the command. */
export function dispatch<Result>(argv: readonly string[], actions: Actions<Result>): Result {
  const open = beforeDashes(argv);
  const words = open.filter((token) => !token.startsWith('-'));
  const asksHelp = words[0] === 'help' || open.includes('--help') || open.includes('-h');
  if (words.length === 0 && argv.length > 0 && !asksHelp) {
    if (open[0] === '-v' || open[0] === '--version') return actions.version();
    throw usage(open[0] === undefined ? 'no command' : `unknown flag ${open[0]}`);
  }
  // Before sade, which ends the process if a command is unknown, and finds `constructor` in the prototype of its table.
  const topic = topicOf(words[0] === 'help' ? words.slice(1) : words);
  const name = topic?.split(' ') ?? [];
  const program = sade('svc');
  program.command('help', '', { default: true }).action(() => actions.help(topic));
  for (const each of Object.keys(COMMANDS) as CommandName[])
    program.command(each).action(() => actions.command(each, without(argv, name)));
  const { handler } = program.parse(['node', 'svc', ...(asksHelp ? ['help'] : []), ...name], { lazy: true });
  return handler() as Result;
}

/** True if errors of this call must be JSON; works even if argv does not parse. */
export function wantsJson(argv: readonly string[]): boolean {
  return beforeDashes(argv).includes('--json');
}

function beforeDashes(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return end === -1 ? argv : argv.slice(0, end);
}

/** Returns the command or group that the first words name; undefined without words. */
function topicOf([first, second]: readonly string[]): Topic {
  if (first === undefined || isCommand(first)) return first;
  const names = Object.keys(COMMANDS);
  if (!isGroup(first)) {
    // The group's name may be missing: `svc load`.
    const likely =
      suggest(first, [...names, ...Object.keys(GROUPS), 'help']) ?? names.find((name) => name.endsWith(` ${first}`));
    throw usage(`unknown command ${quote(first)}`, didYouMean(likely));
  }
  if (second === undefined) return first;
  const both = `${first} ${second}`;
  if (isCommand(both)) return both;
  const inGroup = names.filter((name) => name.startsWith(`${first} `)).map((name) => name.slice(first.length + 1));
  const likely = suggest(second, inGroup);
  throw usage(`unknown command ${quote(both)}`, didYouMean(likely && `${first} ${likely}`, first));
}

function without(argv: readonly string[], words: readonly string[]): string[] {
  const rest = [...argv];
  for (const word of words) rest.splice(rest.indexOf(word), 1);
  return rest;
}

export interface Parsed {
  readonly flags: Readonly<Record<string, unknown>>;
  readonly args: Readonly<Record<string, string | undefined>>;
}

/** Parses the flags and arguments of a command. `argv`: without the words of its name. */
export function parse(name: CommandName, command: Spec, argv: readonly string[]): Parsed {
  const { flags, positionals } = spell(name, command, argv);
  const program = sade('svc');
  program.command([name, ...command.arguments.map((argument) => `[${argument.name}]`)].join(' '));
  const valued = Object.keys(command.flags).filter((flag) => command.flags[flag]?.kind !== 'switch');
  const parsed = program.parse(['node', 'svc', ...name.split(' '), ...flags, '--', ...positionals], {
    lazy: true,
    string: valued,
  });
  const collected = parsed.args.at(-1) as unknown as {
    readonly _: readonly string[];
    readonly [flag: string]: unknown;
  };
  // An argument named `-` accepts only `-`.
  const strays = command.arguments.map(({ name: word }, index) => (word === '-' ? parsed.args[index] : undefined));
  const unexpected = collected._[0] ?? strays.find((stray) => stray !== undefined && stray !== '-');
  if (unexpected !== undefined) {
    const hint = name === 'run' ? 'put quotes around the prompt; name the model with -m' : seeHelp(name);
    throw usage(`unexpected argument ${quote(unexpected)}`, hint);
  }
  const args: Record<string, string | undefined> = {};
  command.arguments.forEach((argument, index) => {
    const value = parsed.args[index];
    if (value === undefined && argument.required) throw usage(`svc ${name} needs a ${argument.name}`, seeHelp(name));
    if (value !== undefined && argument.choices?.includes(value) === false) {
      const likely = suggest(value, argument.choices);
      throw usage(
        `the ${argument.name} must be one of ${argument.choices.join(', ')}, not ${quote(value)}`,
        didYouMean(likely, name),
      );
    }
    args[argument.name] = value;
  });
  return {
    args,
    flags: Object.fromEntries(
      Object.entries(command.flags).map(([flag, facts]) => [flag, valueOf(name, flag, facts, collected)]),
    ),
  };
}

/** Splits the words into flags, by their long names with values, and positionals. */
function spell(name: CommandName, command: Spec, rest: readonly string[]): { flags: string[]; positionals: string[] } {
  const flags: string[] = [];
  const positionals: string[] = [];
  const tokens = rest[Symbol.iterator]();
  for (const token of tokens) {
    if (token === '--') {
      positionals.push(...tokens);
    } else if (token === '-' || !token.startsWith('-')) {
      positionals.push(token);
    } else {
      for (const { flag, spelled, value } of flagsIn(name, command, token)) {
        if (command.flags[flag]?.kind === 'switch') {
          if (value !== undefined) throw usage(`${spelled} takes no value`, seeHelp(name));
          flags.push(`--${flag}`);
          continue;
        }
        const given = value ?? nextValue(command, tokens);
        if (given === undefined) throw usage(`${spelled} needs a value`, seeHelp(name));
        flags.push(`--${flag}=${given}`);
      }
    }
  }
  return { flags, positionals };
}

interface SpelledFlag {
  /** Long name. */
  readonly flag: string;
  readonly spelled: string;
  readonly value: string | undefined;
}

/** Parses `--name`, `--name=value`, `-x`, `-xvalue`, `-x=value`; `-xy` is `-x -y`. */
function flagsIn(name: CommandName, command: Spec, token: string): SpelledFlag[] {
  const flags = command.flags;
  if (token.startsWith('--')) {
    const equals = token.indexOf('=');
    const spelled = equals === -1 ? token : token.slice(0, equals);
    const flag = spelled.slice(2);
    if (!Object.hasOwn(flags, flag)) throw unknownFlag(name, command, spelled);
    return [{ flag, spelled, value: equals === -1 ? undefined : token.slice(equals + 1) }];
  }
  const found: SpelledFlag[] = [];
  for (let i = 1; i < token.length; i += 1) {
    const spelled = `-${token.charAt(i)}`;
    const entry = Object.entries(flags).find(([, facts]) => facts.short === token.charAt(i));
    if (entry === undefined) throw unknownFlag(name, command, spelled);
    const [flag, facts] = entry;
    const attached = token.slice(i + 1);
    if (facts.kind !== 'switch' && attached !== '') {
      found.push({ flag, spelled, value: attached.replace(/^=/, '') });
      break;
    }
    found.push({ flag, spelled, value: undefined });
  }
  return found;
}

/** Returns the token after a flag, unless it is a flag of this command; a value may begin with a dash. */
function nextValue(command: Spec, tokens: Iterator<string>): string | undefined {
  const next = tokens.next();
  if (next.done === true || next.value === '--') return undefined;
  return isFlagOf(command, next.value) ? undefined : next.value;
}

function isFlagOf(command: Spec, token: string): boolean {
  return Object.entries(command.flags).some(
    ([flag, facts]) => token === `--${flag}` || (facts.short !== undefined && token === `-${facts.short}`),
  );
}

function valueOf(name: CommandName, flag: string, facts: Flag, collected: Readonly<Record<string, unknown>>): unknown {
  // mri reads `--no-stream` as `stream: false`.
  if (facts.kind === 'switch') {
    return flag.startsWith('no-') ? collected[flag.slice('no-'.length)] === false : collected[flag] !== undefined;
  }
  const given = collected[flag] as string | string[] | undefined;
  const all = given === undefined ? [] : Array.isArray(given) ? given : [given];
  if (facts.kind === 'strings') return all;
  if (all.length > 1) throw usage(`--${flag} may be given only once`, seeHelp(name));
  const value = all[0] ?? facts.default;
  if (value === undefined) return undefined;
  const read = readValue(facts, value);
  if (read === undefined) throw usage(`--${flag} must be ${expected(facts)}, not ${quote(value)}`, seeHelp(name));
  return read;
}

function readValue(facts: Exclude<Flag, { kind: 'switch' | 'strings' }>, value: string): string | number | undefined {
  switch (facts.kind) {
    case 'string':
      return value === '' ? undefined : value;
    case 'choice':
      return facts.choices.includes(value) ? value : undefined;
    case 'count':
      return /^\d{1,15}$/.test(value) ? Number(value) : undefined;
    case 'number':
      return /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(value) ? Number(value) : undefined;
    case 'duration':
      return readDuration(value);
  }
}

function readDuration(value: string): number | undefined {
  const match = /^(\d{1,9}(?:\.\d+)?)(ms|s|m|h)?$/.exec(value);
  if (match === null) return undefined;
  const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[(match[2] ?? 's') as 'ms' | 's' | 'm' | 'h'];
  return Math.round(Number(match[1]) * milliseconds);
}

function expected(facts: Exclude<Flag, { kind: 'switch' | 'strings' }>): string {
  switch (facts.kind) {
    case 'string':
      return 'a non-empty text';
    case 'choice':
      return `one of ${facts.choices.join(', ')}`;
    case 'count':
      return 'a whole number, 0 or more';
    case 'number':
      return 'a number';
    case 'duration':
      return 'a time such as 15s, 500ms or 2m';
  }
}

function unknownFlag(name: CommandName, spec: Spec, spelled: string): SvcError {
  const known = [...Object.keys(spec.flags), 'help'].map((flag) => `--${flag}`);
  const likely = suggest(spelled, known);
  const hint = likely === undefined && name === 'run' ? 'put a prompt that begins with a dash after `--`' : undefined;
  return usage(`unknown flag ${spelled} for svc ${name}`, hint ?? didYouMean(likely, name));
}

function didYouMean(likely: string | undefined, topic?: string): string {
  return likely === undefined ? seeHelp(topic) : `did you mean ${quote(likely)}?`;
}

function seeHelp(topic?: string): string {
  return topic === undefined ? 'see `svc --help`' : `see \`svc ${topic} --help\``;
}

/** Quotes and shortens typed text, which may be long or contain control characters. */
function quote(typed: string): string {
  return JSON.stringify(typed.length > 60 ? `${typed.slice(0, 60)}…` : typed);
}

function usage(message: string, hint: string = seeHelp()): SvcError {
  return new SvcError('INVALID_REQUEST', message, { hint });
}
