/** Runs `svc start` from a shell, optionally through a wrapper program. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { childEnvironment } from '../../src/process/environment.ts';
import { SVC_COMMAND, type SvcResult } from '../support/svc.ts';
import { must } from './fault.ts';
import type { Scene } from './scene.ts';

/** Runs `svc start` through the program `wrapper` in a shell after the command `before`. Throws if it fails. */
export async function startInShell(scene: Scene, before: string, wrapper: readonly string[] = []): Promise<void> {
  const { code, stderr } = await inShell(scene, before, wrapper);
  must(code === 0, `svc start after ${before}: exit ${String(code)}: ${stderr}`);
}

async function inShell(scene: Scene, before: string, wrapper: readonly string[]): Promise<SvcResult> {
  const command = [...wrapper, ...SVC_COMMAND, 'start', '--timeout', '60s'];
  const shell = spawn('/bin/sh', ['-c', `${before} && exec "$@"`, 'sh', ...command], {
    env: childEnvironment(scene.home.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  shell.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  shell.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [code, signal] = (await once(shell, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, stdout, stderr };
}
