/** A local provider that answers at once, and a daemon in front of it, each in its own process. */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startDaemon } from '../daemon.ts';

/** Name of the provider's model, as svc knows it. */
export const MODEL = 'bench/small';

export interface Overhead {
  /** Base URL of the provider. */
  readonly direct: string;
  /** URL of the daemon, without a path. */
  readonly url: string;
  readonly pid: number;
  /** Next line that the provider prints. */
  line(): Promise<string>;
  stop(): Promise<void>;
}

export async function startOverhead(): Promise<Overhead> {
  const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  const provider = spawn(process.execPath, ['--import', 'tsx', join(root, 'bench', 'overhead', 'upstream.ts')], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: provider.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => (await lines.next()).value as string;
  const direct = `${await line()}/v1`;
  const providers = { bench: { kind: 'openai_compatible', base_url: direct, default_model: 'small' } };
  const { url, pid, stop } = await startDaemon({ config: { log: { level: 'warn' }, providers } });
  return {
    direct,
    url,
    pid,
    line,
    stop: async () => {
      await stop();
      provider.kill();
    },
  };
}
