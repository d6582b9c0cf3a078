/** llama-server, built from the bundled source with its defaults for this machine. */
import { spawn } from 'node:child_process';
import { buildLlamaServer } from '../../compare/llama-server.ts';
import { answering, end, freePort, residentBytes } from './processes.ts';
import type { Server, ServerName, ServerOptions } from './server.ts';

/** `more`: additional arguments. */
export async function startLlamaServer(
  name: ServerName,
  options: ServerOptions,
  more: readonly string[],
): Promise<Server> {
  const { root, model, projector, adapters = [], threads, contextLength, vocabulary } = options;
  const program = await buildLlamaServer(root);
  const port = await freePort();
  const settings = ['-t', String(threads), '-c', String(contextLength), ...more];
  const files = ['-m', model, ...(projector === undefined ? [] : ['--mmproj', projector])];
  const lora = adapters.length === 0 ? [] : ['--lora', adapters.join(',')];
  const args = [...files, ...lora, '--host', '127.0.0.1', '--port', String(port), ...settings];
  const child = spawn(program, args, { stdio: 'ignore' });
  const url = `http://127.0.0.1:${String(port)}`;
  await answering(child, `${url}/health`);
  return {
    name,
    options,
    command: `llama-server -m MODEL ${projector === undefined ? '' : '--mmproj PROJECTOR '}${adapters.length === 0 ? '' : '--lora ADAPTERS '}${settings.join(' ')}`,
    url,
    vocabulary,
    residentBytes: () => residentBytes(child.pid as number),
    restartEngine: null,
    stop: () => end(child),
  };
}
