import { resolvePaths } from '../../home/paths.ts';
import { ERRORS } from '../../protocol/errors.ts';
import { stopDaemon } from '../machine/stop-daemon.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Stop the daemon',
  detail: [
    'Running generations may finish until the timeout; then they are cancelled. Succeeds if no daemon is running.',
  ],
  flags: {
    timeout: {
      kind: 'duration',
      value: 'TIME',
      default: '30s',
      summary: 'how long running generations may take to finish',
    },
    force: { kind: 'switch', summary: 'do not wait for running generations' },
    json: jsonFlag,
  },
  examples: ['svc stop', 'svc stop --timeout 5s', 'svc stop --force'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ timeout, force, json }) => {
  const { wasRunning, killed } = await stopDaemon(resolvePaths(), { drainMs: force ? 0 : timeout, force });
  const text = !wasRunning ? 'svc is not running' : killed ? 'svc was killed' : 'svc has stopped';
  printResult(json, { was_running: wasRunning, killed }, text);
  return killed && !force ? ERRORS.TIMEOUT.exit : 0;
};
