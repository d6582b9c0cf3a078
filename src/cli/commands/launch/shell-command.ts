/** What `svc launch --print` prints. */
import type { Settings } from './agents.ts';

/** As a value of a variable, stands for the variable SVC_API_KEY of the shell. */
export const KEY_OF_SHELL = '$SVC_API_KEY';

/** Returns a command for a POSIX shell that starts a program as `svc launch` does. */
export function shellCommand(program: string, { args, variables }: Settings, rest: readonly string[]): string {
  const all = Object.entries(variables);
  const removed = all.flatMap(([name, value]) => (value === undefined ? [`-u ${name}`] : []));
  const set = all.flatMap(([name, value]) => {
    if (value === undefined) return [];
    return [`${name}=${value === KEY_OF_SHELL ? `"${value}"` : quoted(value)}`];
  });
  return ['env', ...removed, ...set, [program, ...args, ...rest].map(quoted).join(' ')].join(' \\\n  ');
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
