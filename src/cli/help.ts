/** Generates the help from the specs of the commands. */
import { ALIASES, aliasesOf } from './aliases.ts';
import { COMMANDS, isCommand, loadSpecs } from './commands.ts';
import { GROUPS, type GroupName } from './groups.ts';
import type { Topic } from './parse.ts';
import type { Argument, Flag, Spec } from './spec.ts';
import { definitions, indented, wrap, wrapLine } from './terminal/layout.ts';

const INDENT = '  ';
const CONTINUED = '    ';
const EXAMPLES = ['svc run "Why is the sky blue?"', 'svc model add ./model.gguf', 'svc doctor'];
/** A word of a shell command, with what is quoted in it. */
const SHELL_WORDS = /(?:"[^"]*"|'[^']*'|[^\s"'])+/g;

type Entries = readonly (readonly [name: string, spec: Spec])[];

/** Returns the help for a command, a group of commands, or (undefined) the overview, in lines of up to `columns`. */
export async function help(topic: Topic, columns: number): Promise<string> {
  if (topic !== undefined && isCommand(topic)) return commandHelp(topic, (await COMMANDS[topic]()).spec, columns);
  const specs = Object.entries(await loadSpecs());
  return topic === undefined ? overview(specs, columns) : groupHelp(topic, specs, columns);
}

export function usageLine(name: string, spec: Spec): string {
  const flags = Object.keys(spec.flags).length > 0 ? ['[flags]'] : [];
  const rest = spec.passesOn === undefined ? [] : [`[-- ${spec.passesOn}]`];
  return ['svc', name, ...argumentsOf(spec), ...flags, ...rest].join(' ');
}

/** Returns for example `-m, --model MODEL`. */
export function flagUsage(name: string, flag: Flag): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${name}${flag.kind === 'switch' ? '' : ` ${flag.kind === 'choice' ? flag.choices.join('|') : flag.value}`}`;
}

function overview(specs: Entries, columns: number): string {
  const aliases = Object.entries(ALIASES).map(([alias, name]) => [`svc ${alias}`, `svc ${name}`]);
  return sections([
    ['', wrap('svc runs AI models on this machine, in one background process.', columns)],
    ['Usage', usage(['svc <command> [arguments] [flags]'], columns)],
    ['Commands', commandTable(specs, columns)],
    ['Short forms', inset(aliases, columns)],
    ['Examples', examples(EXAMPLES, columns)],
    ['', wrap('Run `svc <command> --help` for flags and examples, `svc --version` for the version.', columns)],
  ]);
}

function groupHelp(group: GroupName, specs: Entries, columns: number): string {
  const members = specs.filter(([name]) => name.startsWith(`${group} `));
  return sections([
    ['', wrap(GROUPS[group], columns)],
    ['Usage', usage([`svc ${group} <command> [arguments] [flags]`], columns)],
    ['Commands', commandTable(members, columns)],
    [
      'Examples',
      examples(
        members.flatMap(([, spec]) => spec.examples[0] ?? []),
        columns,
      ),
    ],
  ]);
}

function commandHelp(name: string, spec: Spec, columns: number): string {
  const flags = Object.entries(spec.flags).map(([flag, facts]) => [flagUsage(flag, facts), describeFlag(facts)]);
  const hasTime = Object.values(spec.flags).some(({ kind }) => kind === 'duration');
  const usages = [name, ...aliasesOf(name)].map((each) => usageLine(each, spec));
  return sections([
    ['', wrap(spec.summary, columns)],
    ['Usage', usage(usages, columns)],
    ['', (spec.detail ?? []).map((paragraph) => wrap(paragraph, columns)).join('\n')],
    ['Flags', inset([...flags, ['-h, --help', 'show this help']], columns)],
    ['', hasTime ? wrap('TIME is for example 500ms, 15s, 2m or 1h; a number alone is seconds.', columns) : ''],
    ['Examples', examples(spec.examples, columns)],
  ]);
}

/** Returns the summary with the default. */
export function describeFlag(flag: Flag): string {
  const standard = 'default' in flag ? ` (default ${flag.default})` : '';
  return flag.summary + standard;
}

function commandTable(entries: Entries, columns: number): string {
  return inset(
    entries.map(([name, spec]) => [[name, ...argumentsOf(spec)].join(' '), spec.summary]),
    columns,
  );
}

function argumentsOf({ arguments: all = [] }: Spec): string[] {
  const shown = ({ name, repeated }: Argument): string => (repeated === true ? `${name}...` : name);
  return all.map((argument) => (argument.required ? `<${argument.name}>` : `[${shown(argument)}]`));
}

function sections(parts: readonly (readonly [title: string, body: string])[]): string {
  return parts
    .filter(([, body]) => body !== '')
    .map(([title, body]) => (title === '' ? body : `${title}:\n${body}`))
    .join('\n\n');
}

function inset(rows: readonly (readonly string[])[], columns: number): string {
  return indented(definitions(rows, columns - INDENT.length), INDENT);
}

function usage(lines: readonly string[], columns: number): string {
  return indented(wrap(lines.join('\n'), columns - INDENT.length, CONTINUED), INDENT);
}

/** Commands that are too long continue as in a shell, between words that are not quoted. */
function examples(commands: readonly string[], columns: number): string {
  const width = columns - INDENT.length;
  const lines = commands.map((command) =>
    command.length <= width ? command : wrapLine(command.match(SHELL_WORDS) ?? [], width, CONTINUED, ' \\'),
  );
  return indented(lines.join('\n'), INDENT);
}
