/**
 * Parses the command line in two steps, so that only the command that is used is loaded. `dispatch` finds its name and
 * calls its action, with sade. `parse` reads its flags and arguments by its spec, with parseArgs of Node. Errors are
 * INVALID_REQUEST (exit 2).
 */
import { parseArgs } from 'node:util';
import sade from 'sade';
import { SvcError } from '../protocol/errors.ts';
import { ALIASES, isAlias } from './aliases.ts';
import { COMMANDS, isCommand, type CommandName } from './commands.ts';
import { GROUPS, isGroup, type GroupName } from './groups.ts';
import type { Argument, Flag, Spec } from './spec.ts';
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
  const named = words[0] === 'help' ? words.slice(1) : words;
  const topic = topicOf(named);
  const name = topic?.split(' ') ?? [];
  const typed = named[0] !== undefined && isAlias(named[0]) ? [named[0]] : name;
  const program = sade('svc');
  program.command('help', '', { default: true }).action(() => actions.help(topic));
  for (const each of Object.keys(COMMANDS) as CommandName[])
    program.command(each).action(() => actions.command(each, without(argv, typed)));
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
  if (isAlias(first)) return ALIASES[first];
  const names = Object.keys(COMMANDS);
  if (!isGroup(first)) {
    // The group's name may be missing: `svc load`.
    const likely =
      suggest(first, [...names, ...Object.keys(ALIASES), ...Object.keys(GROUPS), 'help']) ??
      names.find((name) => name.endsWith(` ${first}`));
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
  readonly args: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Words after `--`, if the command passes them on. */
  readonly rest: readonly string[];
}

/** Parses the flags and arguments of a command. `argv`: without the words of its name. */
export function parse(name: CommandName, spec: Spec, argv: readonly string[]): Parsed {
  const flags = Object.entries(spec.flags);
  // Words that are never the value of the flag before them.
  const spellings = ['--', ...flags.flatMap(([flag, { short }]) => [`--${flag}`, ...(short ? [`-${short}`] : [])])];
  const options = flags.map(([flag, { kind, short }]) => {
    return [flag, { type: kind === 'switch' ? 'boolean' : 'string', ...(short && { short }) }] as const;
  });
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(options),
    allowPositionals: true,
    // A strict parse throws errors of its own, and refuses every value that begins with a dash, such as `-1`.
    strict: false,
    tokens: true,
  });
  const words: string[] = [];
  const rest: string[] = [];
  let isPassedOn = false;
  const given = new Map<string, string[]>(flags.map(([flag]) => [flag, []]));
  for (const token of tokens) {
    if (token.kind === 'option-terminator') isPassedOn = spec.passesOn !== undefined;
    if (token.kind === 'positional') (isPassedOn ? rest : words).push(token.value);
    if (token.kind !== 'option') continue;
    const { name: flag, rawName: spelled, value, inlineValue } = token;
    const values = given.get(flag);
    if (values === undefined) throw unknownFlag(name, spec, spelled);
    if (spec.flags[flag]?.kind === 'switch') {
      if (value !== undefined) throw usage(`${spelled} takes no value`, seeHelp(name));
      values.push('');
    } else if (value === undefined || (!inlineValue && spellings.includes(value))) {
      throw usage(`${spelled} needs a value`, seeHelp(name));
    } else {
      // parseArgs keeps the equals sign of `-m=x`.
      values.push(inlineValue && !spelled.startsWith('--') ? value.replace(/^=/, '') : value);
    }
  }
  return {
    args: argumentsOf(name, spec, words),
    flags: Object.fromEntries(flags.map(([flag, facts]) => [flag, valueOf(name, flag, facts, given.get(flag) ?? [])])),
    rest,
  };
}

function argumentsOf(name: CommandName, spec: Spec, words: readonly string[]): Parsed['args'] {
  const known = spec.arguments ?? [];
  const repeated = known.findIndex((argument) => argument.repeated === true);
  if (repeated !== -1) return withRepeated(known, repeated, words);
  const unexpected = words.find((word, index) => {
    const argument = known[index];
    return argument === undefined || (argument.name === '-' && word !== '-');
  });
  if (unexpected !== undefined) {
    throw usage(`unexpected argument ${quote(unexpected)}`, toPassOn(spec) ?? seeHelp(name));
  }
  const entries = known.map((argument, index) => {
    const value = words[index];
    if (value === undefined && argument.required)
      throw usage(`svc ${name} needs ${article(argument.name)}`, seeHelp(name));
    if (value !== undefined && argument.choices?.includes(value) === false) {
      const message = `the ${argument.name} must be one of ${argument.choices.join(', ')}, not ${quote(value)}`;
      throw usage(message, didYouMean(suggest(value, argument.choices), name));
    }
    return [argument.name, value];
  });
  return Object.fromEntries(entries) as Parsed['args'];
}

/** As argumentsOf, with an argument that takes any number of words. All are optional and without choices. */
function withRepeated(known: readonly Argument[], repeated: number, words: readonly string[]): Parsed['args'] {
  const last = known[repeated + 1];
  const endsWithDash = last?.name === '-' && words.at(-1) === '-';
  const others = endsWithDash ? words.slice(0, -1) : words;
  const single = known.slice(0, repeated).map(({ name }, index) => [name, others[index]]);
  const many = [known[repeated]?.name, others.slice(repeated)];
  return Object.fromEntries([...single, many, ['-', endsWithDash ? '-' : undefined]]) as Parsed['args'];
}

function valueOf(name: CommandName, flag: string, facts: Flag, given: readonly string[]): unknown {
  if (facts.kind === 'switch') return given.length > 0;
  if (facts.kind === 'strings') return given;
  if (given.length > 1) throw usage(`--${flag} may be given only once`, seeHelp(name));
  const value = given[0] ?? facts.default;
  if (value === undefined) return undefined;
  const { expected, read } =
    facts.kind === 'choice'
      ? oneOf(facts.choices)
      : facts.kind === 'count'
        ? within(facts, 'a whole number', WHOLE)
        : facts.kind === 'number'
          ? within(facts, 'a number', DECIMAL)
          : VALUES[facts.kind];
  const result = read(value);
  if (result === undefined) throw usage(`--${flag} must be ${expected}, not ${quote(value)}`, seeHelp(name));
  return result;
}

interface ValueKind {
  readonly expected: string;
  /** Returns undefined if the value is invalid. */
  read(value: string): string | number | undefined;
}

function oneOf(choices: readonly string[]): ValueKind {
  return {
    expected: `one of ${choices.join(', ')}`,
    read: (value) => (choices.includes(value) ? value : undefined),
  };
}

interface Bounds {
  readonly least?: number;
  readonly most: number;
}

const WHOLE = /^\d+$/;
const DECIMAL = /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

function within({ least = 0, most }: Bounds, what: string, form: RegExp): ValueKind {
  return {
    expected: `${what} from ${String(least)} to ${String(most)}`,
    read(typed) {
      const value = form.test(typed) ? Number(typed) : NaN;
      return value >= least && value <= most ? value : undefined;
    },
  };
}

const VALUES: Readonly<Record<'string' | 'duration', ValueKind>> = {
  string: {
    expected: 'a non-empty text',
    read: (value) => (value === '' ? undefined : value),
  },
  duration: {
    expected: 'a time such as 15s, 500ms or 2m',
    read(value) {
      const [, amount, unit = 's'] = /^(\d{1,9}(?:\.\d+)?)(ms|s|m|h)?$/.exec(value) ?? [];
      if (amount === undefined) return undefined;
      return Math.round(Number(amount) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[unit as 'ms' | 's' | 'm' | 'h']);
    },
  },
};

function unknownFlag(name: CommandName, spec: Spec, spelled: string): SvcError {
  if (spelled === '--json') return usage(`svc ${name} has no --json`, spec.insteadOfJson);
  const known = [...Object.keys(spec.flags), 'help'].map((flag) => `--${flag}`);
  const likely = suggest(spelled, known);
  const hint = name === 'run' ? 'put a prompt that begins with a dash after `--`' : toPassOn(spec);
  return usage(
    `unknown flag ${spelled} for svc ${name}`,
    likely === undefined && hint !== undefined ? hint : didYouMean(likely, name),
  );
}

/** Returns the hint for a word that was probably meant to be passed on. */
function toPassOn({ passesOn, arguments: [program] = [] }: Spec): string | undefined {
  return passesOn === undefined ? undefined : `put the arguments of the ${program?.name ?? 'program'} after \`--\``;
}

function article(noun: string): string {
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`;
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
