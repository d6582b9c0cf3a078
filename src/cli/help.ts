/** Generates the help from the specs of the commands. */
import { ALIASES, aliasesOf } from './aliases.ts';
import { COMMANDS, isCommand, loadSpecs } from './commands.ts';
import { GROUPS, type GroupName } from './groups.ts';
import type { Topic } from './parse.ts';
import type { Argument, Flag, Spec } from './spec.ts';
import { table, wrap } from './terminal/format.ts';

const INDENT = '  ';

type Entries = readonly (readonly [name: string, spec: Spec])[];

/** Returns the help for a command, a group of commands, or (undefined) the overview. */
export async function help(topic: Topic, columns: number): Promise<string> {
  if (topic !== undefined && isCommand(topic)) return commandHelp(topic, (await COMMANDS[topic]()).spec, columns);
  const specs = Object.entries(await loadSpecs());
  return topic === undefined ? overview(specs) : groupHelp(topic, specs);
}

export function usageOf(name: string, spec: Spec): string {
  const flags = Object.keys(spec.flags).length > 0 ? ['[flags]'] : [];
  const rest = spec.passesOn === undefined ? [] : [`[-- ${spec.passesOn}]`];
  return ['svc', name, ...argumentsOf(spec), ...flags, ...rest].join(' ');
}

/** Returns for example `-m, --model MODEL`. */
export function flagUsage(name: string, flag: Flag): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${name}${flag.kind === 'switch' ? '' : ` ${flag.kind === 'choice' ? flag.choices.join('|') : flag.value}`}`;
}

function overview(specs: Entries): string {
  return sections([
    ['', 'svc runs AI models on this machine, in one background process.'],
    ['Usage', indent('svc <command> [arguments] [flags]')],
    ['Commands', commandTable(specs)],
    ['Short forms', indent(table(Object.entries(ALIASES).map(([alias, name]) => [`svc ${alias}`, `svc ${name}`])))],
    ['Examples', indent(['svc run "Why is the sky blue?"', 'svc model add ./model.gguf', 'svc doctor'].join('\n'))],
    ['', 'Run `svc <command> --help` for flags and examples, `svc --version` for the version.'],
  ]);
}

function groupHelp(group: GroupName, specs: Entries): string {
  const members = specs.filter(([name]) => name.startsWith(`${group} `));
  return sections([
    ['', GROUPS[group]],
    ['Usage', indent(`svc ${group} <command> [arguments] [flags]`)],
    ['Commands', commandTable(members)],
    ['Examples', indent(members.map(([, spec]) => spec.examples[0]).join('\n'))],
  ]);
}

function commandHelp(name: string, spec: Spec, columns: number): string {
  const flags = Object.entries(spec.flags).map(([flag, facts]) => [flagUsage(flag, facts), describeFlag(facts)]);
  return sections([
    ['', spec.summary],
    ['Usage', indent([name, ...aliasesOf(name)].map((each) => usageOf(each, spec)).join('\n'))],
    ['', (spec.detail ?? []).map((paragraph) => wrap(paragraph, columns)).join('\n')],
    ['Flags', indent(table([...flags, ['-h, --help', 'show this help']]))],
    ['Examples', indent(spec.examples.join('\n'))],
  ]);
}

/** Returns the summary with the default. */
export function describeFlag(flag: Flag): string {
  const standard = 'default' in flag ? ` (default ${flag.default})` : '';
  return flag.summary + standard;
}

function commandTable(entries: Entries): string {
  return indent(table(entries.map(([name, spec]) => [[name, ...argumentsOf(spec)].join(' '), spec.summary])));
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

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, INDENT);
}
