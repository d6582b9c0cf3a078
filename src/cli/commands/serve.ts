/** The only import of the daemon from the CLI. */
import type { Run } from '../commands.ts';

export const run: Run<'serve'> = async ({ mode }) => {
  const { runDaemon } = await import('../../daemon/main.ts');
  return await runDaemon({ mode });
};
