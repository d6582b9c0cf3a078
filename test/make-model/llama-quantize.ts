/** Mixtures of types, made by llama.cpp's own quantiser from an F16 file. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rename, rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { buildLlamaServer } from '../../bench/compare/llama-server.ts';

export const MIXTURES = ['Q4_K_M'] as const;
export type Mixture = (typeof MIXTURES)[number];

export function isMixture(name: string): name is Mixture {
  return (MIXTURES as readonly string[]).includes(name);
}

/** Quantises a file and copies its metadata. The result appears under its name only when complete. */
export async function quantizeFile(root: string, source: string, path: string, mixture: Mixture): Promise<void> {
  const program = join(dirname(await buildLlamaServer(root)), 'llama-quantize');
  const unfinished = `${path}.${process.pid}.part`;
  try {
    const args = [source, unfinished, mixture, String(availableParallelism())];
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors = (errors + text).slice(-4000)));
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0) throw new Error(`${program} ended with ${String(code)}:\n${errors}`);
    await rename(unfinished, path);
  } finally {
    await rm(unfinished, { force: true });
  }
}
