/** node-llama-cpp behind a minimal HTTP server, in its own process. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { answering, end, freePort, residentBytes } from './processes.ts';
import type { Server, ServerOptions } from './server.ts';

/** Maximum number of simultaneous requests in any scenario. The sequences share the cells equally. */
const SEQUENCES = 8;

export async function startNodeLlamaCpp(options: ServerOptions): Promise<Server> {
  const { root, model, threads, contextLength, vocabulary } = options;
  const port = await freePort();
  const settings = { threads, sequences: SEQUENCES, contextSize: Math.floor(contextLength / SEQUENCES) };
  const child = spawn(
    process.execPath,
    [
      '--import',
      'tsx',
      join(root, 'bench', 'peers', 'servers', 'node-llama-cpp-server.ts'),
      JSON.stringify({ port, model, ...settings }),
    ],
    { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const url = `http://127.0.0.1:${String(port)}`;
  await answering(child, `${url}/health`);
  return {
    name: 'node-llama-cpp',
    options,
    command: `node-llama-cpp: model.createContext(${JSON.stringify(settings)
      .replaceAll('"', '')
      .replaceAll(/([:,])/g, '$1 ')})`,
    url,
    vocabulary,
    residentBytes: () => residentBytes(child.pid as number),
    restartEngine: null,
    stop: () => end(child),
  };
}
