/** What commands need of the daemon before they can do their own part. */
import { startDaemon } from '../client/start-daemon.ts';
import type { Paths } from '../config/paths.ts';
import { formatLogLine } from '../log/format.ts';
import { SvcError } from '../protocol/errors.ts';
import type { ReadyRecord } from '../protocol/records.ts';
import { err, say, sayMore } from './output.ts';

export interface EnsuredDaemon {
  readonly wasRunning: boolean;
  /** A daemon that runs but does not serve. null: it is ready. */
  readonly trouble: SvcError | null;
  /** Whether waiting longer may still help. */
  readonly isStarting: boolean;
}

/** There is a daemon afterwards, started if need be. One that dies as it starts is thrown, after its last lines. */
export async function ensureDaemon(paths: Paths, timeoutMs: number, onSpawn?: () => void): Promise<EnsuredDaemon> {
  const outcome = await startDaemon(paths, timeoutMs, onSpawn);
  switch (outcome.kind) {
    case 'ready':
      return { wasRunning: outcome.wasRunning, trouble: null, isStarting: false };
    case 'not_ready':
      return {
        wasRunning: true,
        trouble: notReady(outcome.ready, timeoutMs),
        isStarting: outcome.ready === null || outcome.ready.state === 'STARTING',
      };
    case 'died':
      if (outcome.lines.length > 0) say('the last lines of the daemon:');
      for (const line of outcome.lines) sayMore(formatLogLine(line, { colour: err.hasColour, date: false }));
      throw new SvcError('INTERNAL', `the daemon ended while it started: ${outcome.end}`, {
        hint: 'mend what its last lines name; `svc doctor` checks everything, `svc serve` starts it here',
      });
  }
}

function notReady(ready: ReadyRecord | null, timeoutMs: number): SvcError {
  const after = `after ${String(timeoutMs / 1000)} s`;
  if (ready === null) return new SvcError('NOT_READY', `the daemon does not listen ${after}`, { hint: 'see `svc logs`' });
  const troubles = ready.conditions.filter((condition) => condition.status !== 'ok');
  const reasons = troubles.map((condition) => `${condition.name}: ${condition.reason}`).join('; ');
  const when = ready.state === 'STARTING' ? `is still starting ${after}` : `is ${ready.state} and cannot serve`;
  return new SvcError('NOT_READY', `the daemon ${when}${reasons === '' ? '' : ` (${reasons})`}`, {
    hint: ready.state === 'STARTING' ? 'wait for it with a longer --timeout, or see `svc logs`' : 'see `svc doctor`',
  });
}
