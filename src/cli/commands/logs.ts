import { closeSync, statSync } from 'node:fs';
import { readDaemonFile } from '../../home/daemon-file.ts';
import { crashFile, resolvePaths, type Paths } from '../../home/paths.ts';
import { formatLogLine, isAtLeast } from '../../log/format.ts';
import type { Run } from '../commands.ts';
import { endOfLines, follow, lastLines, OLDER_FILES, openLog } from '../terminal/log-tail.ts';
import { out, print, say } from '../terminal/output.ts';

export const run: Run<'logs'> = async ({ tail, follow: follows, level }) => {
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
  return 0;
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
  print(out.isTerminal ? formatLogLine(line, { colour: out.hasColour, date: true }) : line);
}
