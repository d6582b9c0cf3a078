import { closeSync, statSync } from 'node:fs';
import { readDaemonFile } from '../../home/daemon-file.ts';
import { crashFile, resolvePaths, type Paths } from '../../home/paths.ts';
import { formatLogLine, isAtLeast } from '../../log/format.ts';
import type { Run, Spec } from '../spec.ts';
import { endOfLines, follow, lastLines, OLDER_FILES, openLog } from '../terminal/log-tail.ts';
import { out, say } from '../terminal/output.ts';
import { printText } from '../terminal/result.ts';

export const spec = {
  summary: "Print the daemon's log",
  detail: ['Reads the log file, so it also works after a crash. Prints JSON lines, or readable text on a terminal.'],
  flags: {
    tail: { kind: 'count', value: 'N', default: '200', summary: 'print the last N lines' },
    follow: { kind: 'switch', short: 'f', summary: 'keep printing new lines' },
    level: {
      kind: 'choice',
      choices: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
      summary: 'only lines at this level and above',
    },
  },
  examples: ['svc logs', 'svc logs --tail 50 --level warn', 'svc logs -f'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ tail, follow: follows, level }) => {
  const paths = resolvePaths();
  const wanted = (line: string): boolean => level === undefined || isAtLeast(line, level);

  const file = openLog(paths.logFile);
  const position = file === undefined ? 0 : endOfLines(file);
  const lines = file === undefined ? [] : lastLines(file, position, tail, wanted);
  const older = olderLines(paths.logFile, tail - lines.length, wanted);
  for (const line of [...older, ...lines]) show(line);

  if (file === undefined) say(`there is no log yet at ${paths.logFile}`);
  if (hasCrashed(paths)) say(`the daemon also wrote to standard error: ${crashFile(paths)}`);
  if (follows) {
    return await follow(paths.logFile, file === undefined ? undefined : { file, position }, (line) => {
      if (wanted(line)) show(line);
    });
  }
  if (file !== undefined) closeSync(file);
};

/** True if the last daemon, or one that failed to start after it, wrote to its standard error. */
function hasCrashed(paths: Paths): boolean {
  const file = statSync(crashFile(paths), { throwIfNoEntry: false });
  if (file === undefined || file.size === 0) return false;
  return file.mtimeMs > Date.parse(readDaemonFile(paths.daemonFile)?.started_at ?? '1970-01-01');
}

/** Returns the last `count` wanted lines of the rotated files. */
function olderLines(logFile: string, count: number, wanted: (line: string) => boolean): string[] {
  let lines: string[] = [];
  for (let n = 1; n <= OLDER_FILES && lines.length < count; n += 1) {
    const file = openLog(`${logFile}.${String(n)}`);
    if (file === undefined) break;
    lines = [...lastLines(file, endOfLines(file), count - lines.length, wanted), ...lines];
    closeSync(file);
  }
  return lines;
}

function show(line: string): void {
  printText(out.isTerminal ? formatLogLine(line, { colour: out.hasColour, date: true }) : line);
}
