/** Runs a comparison of our engine with llama-server, one model after the other. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadAddon } from '../../src/engine/loader.ts';
import { buildLlamaServer, LlamaServer, type ServerOptions } from './llama-server.ts';
import { OurEngine } from './our-engine.ts';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Short texts with which the time is measured. */
export const MANY = Array.from(
  { length: 256 },
  (_, index) => `The river ${index} runs under the old bridge, and boats wait.`,
);

export interface Both {
  /** Path of the file. */
  readonly model: string;
  readonly engine: OurEngine;
  readonly server: LlamaServer;
}

/**
 * Calls `compare` for each model of the command line (`[--threads 1] [MODEL.gguf …]`), or for the test models `names`,
 * with both loaded from the same file.
 */
export async function besideServer(
  names: readonly string[],
  kind: Pick<ServerOptions, 'embeddings' | 'reranking'>,
  compare: (both: Both) => Promise<void>,
): Promise<void> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { threads: { type: 'string', default: '1' } },
  });
  await beside(positionals.length > 0 ? positionals : names.map(testModel), Number(values.threads), kind, compare);
}

export const testModel = (name: string): string => join(root, 'build', 'models', `${name}.gguf`);

/** Calls `compare` for each model file. */
export async function beside(
  models: readonly string[],
  threads: number,
  kind: Pick<ServerOptions, 'embeddings' | 'reranking'>,
  compare: (both: Both) => Promise<void>,
): Promise<void> {
  const { addon, directory: libraries } = loadAddon();
  addon.loadBackends(libraries);
  const program = await buildLlamaServer(root);
  for (const model of models) {
    const engine = await OurEngine.load(addon, model, { threads });
    const contextLength = engine.info.context_length;
    const server = await LlamaServer.start(program, { model, threads, contextLength, libraries, ...kind });
    try {
      await compare({ model, engine, server });
    } finally {
      await server.stop();
      await engine.close();
    }
  }
}

/** Time of the second run, after warm-up. */
export async function timeOf(run: () => Promise<unknown>): Promise<number> {
  await run();
  const from = performance.now();
  await run();
  return performance.now() - from;
}
