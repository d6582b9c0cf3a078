/** The only import of the daemon from the CLI. */
import type { Run, Spec } from '../spec.ts';

export const spec = {
  summary: 'Run the daemon in the foreground',
  detail: ['Logs to standard error: readable on a terminal, JSON lines otherwise. Ctrl-C drains and stops the daemon.'],
  flags: {
    mode: {
      kind: 'choice',
      choices: ['foreground', 'background', 'service'],
      default: 'foreground',
      summary: 'how the daemon is supervised; `svc start` uses background, which logs to the log file',
    },
  },
  insteadOfJson: 'its log is JSON lines where standard error is not a terminal; svc status --json has its state',
  examples: ['svc serve', 'SVC_HTTP_ADDR=127.0.0.1:0 svc serve'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ mode }) => {
  const { runDaemon } = await import('../../daemon/main.ts');
  return await runDaemon(mode);
};
