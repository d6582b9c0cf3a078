/** Speculative decoding: its gain where drafts are accepted, and its cost where they are not. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Figure, Scenario } from '../scenario.ts';

const against = (name: string, bars: Figure['bars']): Figure => ({
  name: `decode of text that ${name}, against the same without`,
  unit: 'ratio',
  isMoreBetter: true,
  bars,
});

/**
 * Runs the engine without the daemon, because clients of svc cannot turn speculation off. It runs in its own process
 * while the servers are idle.
 */
export const speculation: Scenario = {
  name: 'speculation',
  servers: ['svc'],
  figures: [
    against('does not repeat', [{ limit: 0.97 }]),
    against('repeats', [{ limit: 1.3 }]),
    against('repeats in part', []),
  ],
  seconds: 24,
  measure: async ({ options: { root, model, threads } }) => {
    const program = join(root, 'bench', 'peers', 'speculation.ts');
    const args = ['--import', 'tsx', program, model, String(threads)];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
    return JSON.parse(stdout) as number[];
  },
};
