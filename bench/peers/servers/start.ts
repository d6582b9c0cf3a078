/** Starts a server by its name and warms it up with one request. */
import { ask } from '../ask.ts';
import { words } from '../words.ts';
import { startLlamaServer } from './llama-server.ts';
import { startNodeLlamaCpp } from './node-llama-cpp.ts';
import type { Server, ServerName, ServerOptions } from './server.ts';
import { startSvc } from './svc.ts';

export async function start(name: ServerName, options: ServerOptions): Promise<Server> {
  const server = await startCold(name, options);
  try {
    await ask(server, { messages: [{ role: 'user', content: words(12) }], maxTokens: 16 });
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function startCold(name: ServerName, options: ServerOptions): Promise<Server> {
  switch (name) {
    case 'svc':
      return await startSvc(options);
    case 'llama-server':
      return await startLlamaServer(name, options, []);
    case 'llama-server -np 8':
      return await startLlamaServer(name, options, ['-np', '8']);
    case 'llama-server -np 16':
      return await startLlamaServer(name, options, ['-np', '16']);
    case 'node-llama-cpp':
      return await startNodeLlamaCpp(options);
  }
}
