/**
 * Generates the man page svc(1) from the table of commands, the table of variables and the exit codes in docs/cli.md.
 *
 *   node --import tsx scripts/make-man.ts FILE
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { COMMANDS, type Command } from '../src/cli/commands.ts';
import { describeFlag, flagUsage, usageOf } from '../src/cli/help.ts';
import { VARIABLES } from '../src/process/environment.ts';
import { VERSION } from '../src/config/version.ts';

const SUMMARY = 'run AI models on this machine, in one background process';

function manPage(): string {
  return [
    `.\\" Made by scripts/make-man.ts from the table of commands.`,
    `.TH SVC 1 "" "svc ${VERSION}" "User Commands"`,
    '.SH NAME',
    `svc \\- ${text(SUMMARY)}`,
    '.SH SYNOPSIS',
    '.B svc',
    '.I command',
    '.RI [ arguments ]',
    '.RI [ flags ]',
    '.SH DESCRIPTION',
    text(
      'One background process, the daemon, runs local models and sends requests to cloud providers; svc commands use its control socket. Standard output is data, standard error is messages. With --json data and errors are JSON.',
    ),
    '.PP',
    text('A time is a number with ms, s, m or h, or of seconds. After -- everything is an argument.'),
    '.SH COMMANDS',
    ...Object.entries(COMMANDS as Readonly<Record<string, Command>>).flatMap(([name, command]) =>
      section(name, command),
    ),
    '.SH EXIT STATUS',
    ...exitCodes().flatMap(([code, meaning]) => ['.TP', `.B ${code}`, text(meaning)]),
    '.SH ENVIRONMENT',
    ...Object.entries(VARIABLES).flatMap(([name, meaning]) => ['.TP', `.B ${name}`, text(meaning)]),
    '.SH FILES',
    text('`svc config path` prints the path of the config file; `svc status` shows the log and the control socket.'),
    '',
  ].join('\n');
}

function section(name: string, command: Command): string[] {
  const flags = Object.entries(command.flags).flatMap(([flag, facts]) => [
    '.TP',
    `.B ${text(flagUsage(flag, facts))}`,
    text(describeFlag(facts)),
  ]);
  return [
    `.SS ${text(usageOf(name, command))}`,
    text(`${command.summary}.`),
    ...(command.detail ?? []).flatMap((paragraph) => ['.PP', text(paragraph)]),
    ...flags,
    '.PP',
    'Examples:',
    '.PP',
    '.RS 4',
    '.EX',
    ...command.examples.map(text),
    '.EE',
    '.RE',
  ];
}

/** Rows of the exit-code table in docs/cli.md, which a test compares with the table of errors. */
function exitCodes(): [code: string, meaning: string][] {
  const docs = readFileSync(new URL('../docs/cli.md', import.meta.url), 'utf8');
  return [...docs.matchAll(/^\| (\d+) \| (.+) \|$/gm)].map(([, code = '', meaning = '']) => [code, meaning]);
}

/** Escapes text for roff: backslashes, dashes that must stay ASCII, and lines that begin like a request. */
function text(plain: string): string {
  return plain
    .replaceAll('\\', '\\(rs')
    .replaceAll('-', '\\-')
    .replaceAll('`', '\\(ga')
    .replaceAll("'", '\\(aq')
    .replaceAll('"', '\\(dq')
    .replace(/^[.']/, '\\&$&');
}

const [file] = process.argv.slice(2);
if (file === undefined) process.stdout.write(manPage());
else writeFileSync(file, manPage());
