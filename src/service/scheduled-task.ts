/** The scheduled task on Windows and the batch file that it runs. Pure. Starts when the user logs on. */
import { batchArguments } from '../process/batch-file.ts';
import type { ServiceDefinition } from './definition.ts';

export const TASK_NAME = 'svc';

/** Exit codes of an error that a restart does not fix, as in sysexits.h. */
const LASTING = { first: 64, last: 78 } as const;
/** Pause before a restart after a crash. */
const PAUSE_SECONDS = 5;

/**
 * The batch file: a task has no variables, and does not restart a program that crashed. Characters beyond ASCII are
 * UTF-8. Standard error has a file of its own, because cmd.exe shares it with no other writer.
 */
export function serviceScript({ command, environment, errorLog }: ServiceDefinition): string {
  const set = Object.entries(environment).map(([name, value]) => `set "${name}=${escapePercent(value)}"`);
  return [
    '@echo off',
    'chcp 65001 >nul',
    ...set,
    ':start',
    `${command.map(quote).join(' ')} 2>>${quote(`${errorLog}.service`)}`,
    'set code=%errorlevel%',
    'if %code% equ 0 exit /b 0',
    `if %code% geq ${String(LASTING.first)} if %code% leq ${String(LASTING.last)} exit /b %code%`,
    // `timeout` needs a console. One more echo than seconds between them.
    `ping -n ${String(PAUSE_SECONDS + 1)} 127.0.0.1 >nul`,
    'goto start',
    '',
  ].join('\r\n');
}

/**
 * The definition that schtasks reads. `user`: DOMAIN\name; without one, only an administrator could make the task.
 * `script`: path of the batch file.
 */
export function scheduledTask(user: string, script: string): string {
  return [
    '<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">',
    '  <Triggers>',
    `    <LogonTrigger><UserId>${escape(user)}</UserId></LogonTrigger>`,
    '  </Triggers>',
    '  <Principals>',
    `    <Principal id="user"><UserId>${escape(user)}</UserId><LogonType>InteractiveToken</LogonType></Principal>`,
    '  </Principals>',
    '  <Settings>',
    '    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>',
    '    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>',
    '    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>',
    '    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>',
    '  </Settings>',
    '  <Actions Context="user">',
    '    <Exec>',
    // Without a console window. conhost.exe drops quotation marks around a path without a space.
    '      <Command>conhost.exe</Command>',
    `      <Arguments>${escape(['--headless', 'cmd.exe', ...batchArguments(script, [])].join(' '))}</Arguments>`,
    '    </Exec>',
    '  </Actions>',
    '</Task>',
    '',
  ].join('\r\n');
}

function escapePercent(text: string): string {
  return text.replaceAll('%', '%%');
}

function quote(text: string): string {
  return `"${escapePercent(text)}"`;
}

/** Also characters beyond ASCII, so that the encoding of the file does not matter. */
function escape(text: string): string {
  return text.replace(/[&<>"]|[^ -~]/gu, (character) => `&#${String(character.codePointAt(0))};`);
}
