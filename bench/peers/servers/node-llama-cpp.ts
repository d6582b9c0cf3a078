/** node-llama-cpp behind the least of a server, in a process of its own. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { answering, end, freePort, residentBytes } from './processes.ts';
import type { Server, ServerOptions } from './server.ts';

/** As many as any scenario has at once. Each has its own part of the cells. */
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
