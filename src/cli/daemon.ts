/** What commands need of the daemon before they can do their own part. */
import { startDaemon, type StartOutcome } from '../client/start-daemon.ts';
import type { Paths } from '../config/paths.ts';
import { formatLogLine } from '../log/format.ts';
import { ERRORS, SvcError } from '../protocol/errors.ts';
import type { ReadyRecord } from '../protocol/records.ts';
import { err, say, sayMore } from './output.ts';

export interface EnsuredDaemon {
  readonly wasRunning: boolean;
  /** A daemon that runs but does not serve. null: it is ready. */
  readonly trouble: SvcError | null;
  /** Whether waiting longer may still help. */
  readonly isStarting: boolean;
}

export interface EnsureOptions {
  readonly timeoutMs: number;
  /** Whether an error is to be one line of JSON, and nothing beside it. */
  readonly json: boolean;
  readonly onSpawn?: () => void;
}

/** There is a daemon afterwards, started if need be. One that dies as it starts is thrown, after its last lines. */
export async function ensureDaemon(paths: Paths, { timeoutMs, json, onSpawn }: EnsureOptions): Promise<EnsuredDaemon> {
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
      throw died(outcome, json);
  }
}

/** For a daemon that has to be started first. */
const START_MS = 60_000;

/**
 * As `ensureDaemon`, for those who then ask for an answer: a daemon that has settled without being
 * ready may still have one for this model, or the reason why not. Only one that still starts is thrown.
 */
export async function ensureServing(paths: Paths, json: boolean): Promise<void> {
  const onSpawn = (): void => {
    say('starting the daemon');
  };
  const { trouble, isStarting } = await ensureDaemon(paths, { timeoutMs: START_MS, json, onSpawn });
  if (trouble !== null && isStarting) throw trouble;
}

type Died = Extract<StartOutcome, { kind: 'died' }>;

/** The daemon's own error, when it had one, is the error; whatever else it wrote last is shown before. */
function died({ end, code, lines }: Died, json: boolean): SvcError {
  const after = (prefix: string): string | undefined =>
    lines.findLast((line) => line.startsWith(prefix))?.slice(prefix.length);
  const reason = after('svc: ');
  const others = lines.filter((line) => !/^(svc|hint): /.test(line));
  if (!json && others.length > 0) {
    say('the last lines of the daemon:');
    for (const line of others) sayMore(formatLogLine(line, { colour: err.hasColour, date: false }));
  }
  return new SvcError(
    // Whoever starts a daemon asks whether that has worked; only what the home lacks has a code of its own.
    code === ERRORS.CANNOT_WRITE.exit ? 'CANNOT_WRITE' : 'INTERNAL',
    `the daemon ended as it started (${end})${reason === undefined ? '' : `: ${reason}`}`,
    {
      hint: after('hint: ') ?? '`svc doctor` checks everything; `svc serve` starts it here',
    },
  );
}

function notReady(ready: ReadyRecord | null, timeoutMs: number): SvcError {
  const after = `after ${String(timeoutMs / 1000)} s`;
  if (ready === null)
    return new SvcError('NOT_READY', `the daemon does not listen ${after}`, { hint: 'see `svc logs`' });
  const troubles = ready.conditions.filter((condition) => condition.status !== 'ok');
  const reasons = troubles.map((condition) => `${condition.name}: ${condition.reason}`).join('; ');
  const when = ready.state === 'STARTING' ? `is still starting ${after}` : `is ${ready.state} and cannot serve`;
  return new SvcError('NOT_READY', `the daemon ${when}${reasons === '' ? '' : ` (${reasons})`}`, {
    hint: ready.state === 'STARTING' ? 'wait for it with a longer --timeout, or see `svc logs`' : 'see `svc doctor`',
  });
}
