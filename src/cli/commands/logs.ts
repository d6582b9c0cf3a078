import { statSync } from 'node:fs';
import { readDaemonFile } from '../../home/daemon-file.ts';
import { crashFile, resolvePaths, type Paths } from '../../home/paths.ts';
import { formatLogLine, isAtLeast, parseLogLine } from '../../log/format.ts';
import { follow, tailLog } from '../../log/tail.ts';
import type { Run, Spec } from '../spec.ts';
import { out, print, say } from '../terminal/output.ts';
import { printText } from '../terminal/result.ts';

export const spec = {
  summary: "Print the daemon's log",
  detail: ['Reads the log file, so it also works after a crash. Prints JSON lines, or readable text on a terminal.'],
  flags: {
    tail: { kind: 'count', most: 10_000_000, value: 'N', default: '200', summary: 'print the last N lines' },
    follow: { kind: 'switch', short: 'f', summary: 'keep printing new lines' },
    level: {
      kind: 'choice',
      choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
      summary: 'only lines at this level and above',
    },
    json: { kind: 'switch', summary: 'print JSON lines, also on a terminal' },
  },
  examples: ['svc logs', 'svc logs --tail 50 --level warn', 'svc logs -f', 'svc logs --level error --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ tail, follow: follows, level, json }) => {
  const paths = resolvePaths();
  const wanted = (line: string): boolean => level === undefined || isAtLeast(line, level);

  const { lines, log } = await tailLog(paths.logFile, tail, wanted);
  for (const line of lines) show(line, json);

  if (log === undefined) say(`there is no log yet at ${paths.logFile}`);
  if (hasCrashed(paths)) say(`the daemon also wrote to standard error: ${crashFile(paths)}`);
  if (!follows) {
    await log?.file.close();
    return;
  }
  for await (const line of follow(paths.logFile, log)) if (wanted(line)) show(line, json);
};

/** True if the last daemon, or one that failed to start after it, wrote to its standard error. */
function hasCrashed(paths: Paths): boolean {
  const file = statSync(crashFile(paths), { throwIfNoEntry: false });
  if (file === undefined || file.size === 0) return false;
  return file.mtimeMs > Date.parse(readDaemonFile(paths.daemonFile)?.started_at ?? '1970-01-01');
}

function show(line: string, json: boolean): void {
  if (json) print(parseLogLine(line) === null ? JSON.stringify({ msg: line }) : line);
  else printText(out.isTerminal ? formatLogLine(line, { colour: out.hasColour, date: true }) : line);
}
