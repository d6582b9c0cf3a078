/** Generates the help from the table of commands. */
import { COMMANDS, GROUPS, type Command, type Flag } from './commands.ts';
import { table, wrap } from './terminal/format.ts';

const INDENT = '  ';

/** Returns the help for `topic`: a command, a group of commands, or undefined for the overview. */
export function help(topic: string | undefined, columns: number): string {
  if (topic === undefined) return overview();
  const command: Command | undefined = (COMMANDS as Readonly<Record<string, Command>>)[topic];
  return command === undefined ? groupHelp(topic as keyof typeof GROUPS) : commandHelp(topic, command, columns);
}

export function usageOf(name: string, command: Command): string {
  const args = command.arguments.map((argument) => (argument.required ? `<${argument.name}>` : `[${argument.name}]`));
  return ['svc', name, ...args, ...(Object.keys(command.flags).length > 0 ? ['[flags]'] : [])].join(' ');
}

/** Returns for example `-m, --model MODEL`. */
export function flagUsage(name: string, flag: Flag): string {
  const short = flag.short === undefined ? '' : `-${flag.short}, `;
  return `${short}--${name}${flag.kind === 'switch' ? '' : ` ${flag.kind === 'choice' ? flag.choices.join('|') : flag.value}`}`;
}

function overview(): string {
  return sections([
    ['', 'svc runs AI models on this machine, in one background process.'],
    ['Usage', indent('svc <command> [arguments] [flags]')],
    ['Commands', commandTable(Object.entries(COMMANDS))],
    ['Examples', indent(['svc run "Why is the sky blue?"', 'svc model add ./model.gguf', 'svc doctor'].join('\n'))],
    ['', 'Run `svc <command> --help` for flags and examples, `svc --version` for the version.'],
  ]);
}

function groupHelp(group: keyof typeof GROUPS): string {
  const members = Object.entries(COMMANDS).filter(([name]) => name.startsWith(`${group} `));
  return sections([
    ['', GROUPS[group]],
    ['Usage', indent(`svc ${group} <command> [arguments] [flags]`)],
    ['Commands', commandTable(members)],
    ['Examples', indent(members.map(([, command]) => command.examples[0]).join('\n'))],
  ]);
}

function commandHelp(name: string, command: Command, columns: number): string {
  const flags = Object.entries(command.flags).map(([flag, facts]) => [flagUsage(flag, facts), describeFlag(facts)]);
  return sections([
    ['', command.summary],
    ['Usage', indent(usageOf(name, command))],
    ['', (command.detail ?? []).map((paragraph) => wrap(paragraph, columns, '')).join('\n')],
    ['Flags', indent(table([...flags, ['-h, --help', 'show this help']]))],
    ['Examples', indent(command.examples.join('\n'))],
  ]);
}

/** Returns the summary with the default. */
export function describeFlag(flag: Flag): string {
  const standard = 'default' in flag ? ` (default ${flag.default})` : '';
  return flag.summary + standard;
}

function commandTable(entries: readonly (readonly [string, Command])[]): string {
  const rows = entries.map(([name, command]) => [
    [
      name,
      ...command.arguments.map((argument) => (argument.required ? `<${argument.name}>` : `[${argument.name}]`)),
    ].join(' '),
    command.summary,
  ]);
  return indent(table(rows));
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
