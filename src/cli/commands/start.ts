import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import { given } from '../../protocol/given.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { ensureDaemon, showStarting } from '../machine/daemon.ts';
import { sayIfOther } from '../machine/other-version.ts';
import { report, say, sayProgress } from '../terminal/output.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Start the daemon in the background',
  detail: ['Returns when the daemon is ready, or reports why it is not. Succeeds if the daemon is already running.'],
  flags: {
    timeout: {
      kind: 'duration',
      value: 'TIME',
      default: '15s',
      summary: 'how long to wait for the daemon to become ready',
    },
    json: jsonFlag,
  },
  examples: ['svc start', 'svc start --timeout 1m', 'svc start --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ timeout, json }) => {
  const paths = resolvePaths();
  // A failed start exits with 1; exit code 4 is for `status` and `health`, 78 for a start that was not tried.
  const moreTime = 'give it more time with --timeout';
  const options = { timeoutMs: timeout, json, moreTime, onStarting: showStarting };
  const started = await ensureDaemon(paths, options).catch((error: unknown) => {
    if (!(error instanceof SvcError) || error.code !== 'CONFIG_INVALID') throw error;
    report(error, json);
  });
  sayProgress('');
  if (started === undefined) return 1;
  const { wasRunning, trouble } = started;
  if (trouble !== null) throw new SvcError('INTERNAL', trouble.message, given({ hint: trouble.hint }));
  const status = await new ControlClient(paths.socketPath).status();
  const state = wasRunning ? 'is already running' : 'is ready';
  const address = status.http === null ? '' : ` at http://${status.http}`;
  const record = { ...status, already_running: wasRunning };
  printResult(json, record, `svc ${state} (pid ${String(status.pid)})${address}`);
  sayIfOther(status);
  if (status.state === 'DEGRADED') say('the state is DEGRADED: `svc status` shows why');
  return 0;
};
