/**
 * Generates the man page svc(1) from the specs of the commands, the table of variables and the exit codes in
 * docs/cli.md.
 *
 *   node --import tsx scripts/make-man.ts FILE
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { ALIASES } from '../src/cli/aliases.ts';
import { loadSpecs } from '../src/cli/commands.ts';
import { describeFlag, flagUsage, usageLine } from '../src/cli/help.ts';
import type { Spec, Specs } from '../src/cli/spec.ts';
import { VARIABLES } from '../src/process/environment.ts';
import { VERSION } from '../src/config/version.ts';

const SUMMARY = 'run AI models on this machine, in one background process';

function manPage(specs: Specs): string {
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
    ...Object.entries(specs).flatMap(([name, spec]) => section(name, spec)),
    '.SH SHORT FORMS',
    ...Object.entries(ALIASES).flatMap(([alias, name]) => ['.TP', `.B ${text(`svc ${alias}`)}`, text(`svc ${name}`)]),
    '.SH EXIT STATUS',
    ...exitCodes().flatMap(([code, meaning]) => ['.TP', `.B ${code}`, text(meaning)]),
    '.SH ENVIRONMENT',
    ...Object.entries(VARIABLES).flatMap(([name, meaning]) => ['.TP', `.B ${name}`, text(meaning)]),
    '.SH FILES',
    text('`svc config path` prints the path of the config file; `svc status` shows the log and the control socket.'),
    '',
  ].join('\n');
}

function section(name: string, spec: Spec): string[] {
  const flags = Object.entries(spec.flags).flatMap(([flag, facts]) => [
    '.TP',
    `.B ${text(flagUsage(flag, facts))}`,
    text(describeFlag(facts)),
  ]);
  return [
    `.SS ${text(usageLine(name, spec))}`,
    text(`${spec.summary}.`),
    ...(spec.detail ?? []).flatMap((paragraph) => ['.PP', text(paragraph)]),
    ...flags,
    '.PP',
    'Examples:',
    '.PP',
    '.RS 4',
    '.EX',
    ...spec.examples.map(text),
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
const page = manPage(await loadSpecs());
if (file === undefined) process.stdout.write(page);
else writeFileSync(file, page);
