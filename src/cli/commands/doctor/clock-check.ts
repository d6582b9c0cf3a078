/** A wrong clock breaks certificate checks and puts log lines out of order. */
import { readDaemonFile } from '../../../home/daemon-file.ts';
import type { Paths } from '../../../home/paths.ts';
import { parseLogLine } from '../../../log/format.ts';
import { tailLog } from '../../../log/tail.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import { duration } from '../../terminal/format.ts';
import { check } from './check.ts';

/** svc did not exist before this date. */
const EARLIEST_MS = Date.UTC(2026, 0, 1);
/** Allowance for times that were taken one after the other. */
const TOLERANCE_MS = 2000;

export async function checkClock(
  paths: Pick<Paths, 'logFile' | 'daemonFile'>,
  now: number = Date.now(),
): Promise<DoctorCheck> {
  const value = new Date(now).toISOString();
  const hint = 'set the clock, and use a time service: timedatectl set-ntp true';
  if (now < EARLIEST_MS) return check('clock', 'fail', value, { detail: 'the clock is years behind', hint });
  const written = [
    { what: 'the last line of the log', at: await lastLogged(paths.logFile) },
    { what: 'the start of the daemon', at: Date.parse(readDaemonFile(paths.daemonFile)?.started_at ?? '') },
  ];
  const ahead = written.find(({ at }) => at > now + TOLERANCE_MS);
  if (ahead === undefined) return check('clock', 'ok', value);
  const { what, at } = ahead;
  const detail = `${what} is ${duration((at - now) / 1000)} in the future: the clock has been set back since`;
  return check('clock', 'warn', value, { detail, hint });
}

/** Resolves with NaN without a line of the daemon. Another check reports a log that cannot be read. */
async function lastLogged(logFile: string): Promise<number> {
  try {
    const { lines, log } = await tailLog(logFile, 1, (line) => parseLogLine(line) !== null);
    await log?.file.close();
    return Date.parse(parseLogLine(lines[0] ?? '')?.time ?? '');
  } catch {
    return NaN;
  }
}
