/** Starting the daemon for commands that need one. */
import { ControlClient } from '../../client/control-client.ts';
import { startDaemon, type StartOptions, type StartOutcome } from '../../client/start-daemon.ts';
import type { Paths } from '../../home/paths.ts';
import { formatLogLine } from '../../log/format.ts';
import { ERRORS, SvcError } from '../../protocol/errors.ts';
import type { ReadyRecord } from '../../protocol/records.ts';
import { err, say, sayMore, sayProgress } from '../terminal/output.ts';
import { sayIfOther } from './other-version.ts';

export interface EnsuredDaemon {
  readonly wasRunning: boolean;
  /** Why the running daemon cannot serve; null if it is ready. */
  readonly trouble: SvcError | null;
  /** True if the daemon may still become ready. */
  readonly isStarting: boolean;
}

export interface EnsureOptions extends StartOptions {
  /** True if an error must be one line of JSON and nothing else. */
  readonly json: boolean;
  /** How the user can give the daemon more time, for the hint of an error. */
  readonly moreTime: string;
}

/** Starts the daemon if none is running. If it dies while starting, prints its last output lines and throws. */
export async function ensureDaemon(paths: Paths, options: EnsureOptions): Promise<EnsuredDaemon> {
  const outcome = await startDaemon(paths, options);
  switch (outcome.kind) {
    case 'ready':
      return { wasRunning: outcome.wasRunning, trouble: null, isStarting: false };
    case 'not_ready':
      return {
        wasRunning: true,
        trouble: notReady(outcome.ready, options),
        isStarting: outcome.ready === null || outcome.ready.state === 'STARTING',
      };
    case 'died':
      throw died(outcome, options.json);
  }
}

/** Shows what a daemon that is STARTING does. Clear it with `sayProgress('')`. */
export function showStarting({ conditions }: ReadyRecord): void {
  const engine = conditions.find(({ name, status }) => name === 'engine' && status !== 'ok');
  sayProgress(`waiting for the daemon${engine === undefined ? '' : `: ${engine.reason}`}`);
}

/** Timeout of a start for commands that then send a prompt. */
const START_MS = 60_000;

/**
 * Like `ensureDaemon`, for commands that then send a prompt. A daemon that has started but is not ready may still
 * serve this model, or return a better error. Throws only if it is still starting.
 */
export async function ensureServing(paths: Paths, json: boolean): Promise<void> {
  const onSpawn = (): void => {
    if (!json) say('starting the daemon');
  };
  const moreTime = 'wait with `svc start --timeout 5m`';
  const options = { timeoutMs: START_MS, json, onSpawn, moreTime };
  const { wasRunning, trouble, isStarting } = await ensureDaemon(paths, options);
  if (trouble !== null && isStarting) throw trouble;
  if (wasRunning && !json) sayIfOther(await new ControlClient(paths.socketPath).status());
}

type Died = Extract<StartOutcome, { kind: 'died' }>;

/** Returns the daemon's own error if it wrote one; otherwise prints its last lines. */
function died({ end, code, lines }: Died, json: boolean): SvcError {
  const after = (prefix: string): string | undefined =>
    lines.findLast((line) => line.startsWith(prefix))?.slice(prefix.length);
  const reason = after('svc: ');
  const others = lines.filter((line) => !/^(svc|hint): /.test(line));
  // The log repeats a reason that the daemon has given.
  if (!json && reason === undefined && others.length > 0) {
    say('last log lines:');
    for (const line of others) sayMore(formatLogLine(line, { colour: err.hasColour, date: false }));
  }
  return new SvcError(
    (['CANNOT_WRITE', 'CONFIG_INVALID'] as const).find((each) => code === ERRORS[each].exit) ?? 'INTERNAL',
    `the daemon ended as it started (${end})${reason === undefined ? '' : `: ${reason}`}`,
    {
      hint:
        after('hint: ') ?? 'run `svc doctor` to check everything, or `svc serve` to start the daemon in the foreground',
    },
  );
}

function notReady(ready: ReadyRecord | null, { timeoutMs, startingMs = timeoutMs, moreTime }: EnsureOptions): SvcError {
  const after = `after ${String((ready?.state === 'STARTING' ? startingMs : timeoutMs) / 1000)} s`;
  if (ready === null)
    return new SvcError('NOT_READY', `the daemon is not listening ${after}`, { hint: 'see `svc logs`' });
  const troubles = ready.conditions.filter((condition) => condition.status !== 'ok');
  const reasons = troubles.map((condition) => `${condition.name}: ${condition.reason}`).join('; ');
  const when = ready.state === 'STARTING' ? `is still starting ${after}` : `is ${ready.state} and cannot serve`;
  return new SvcError('NOT_READY', `the daemon ${when}${reasons === '' ? '' : ` (${reasons})`}`, {
    hint:
      ready.state === 'STARTING'
        ? `${moreTime}, or see \`svc logs\``
        : 'it keeps running: correct the cause, then run `svc restart`',
  });
}
